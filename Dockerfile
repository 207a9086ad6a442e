# syntax=docker/dockerfile:1
# NOT BUILT YET: there was no Docker engine where this was written. It is linted by `make workflows`; the install
# command, the server's command and the health check were run by hand in a plain environment of Python 3.13.
#
#   docker build -t jackstay .
#   docker run --rm -p 127.0.0.1:8000:8000 jackstay         # the apcore demo at http://127.0.0.1:8000/mcp
#   docker run --rm -i --no-healthcheck jackstay procontext # the documentation server over stdio

FROM python:3.13-slim AS build
WORKDIR /source
RUN python -m venv /opt/venv
COPY constraints.txt ./
COPY packages ./packages
# uv verifies the hashes in constraints.txt, which pip does not do for packages in directories.
RUN sed -n '/^uv==/,/[^\\]$/p' constraints.txt >uv.txt \
    && python -m pip install --no-cache-dir --disable-pip-version-check --requirement uv.txt \
    && uv pip install --no-cache --python /opt/venv/bin/python --constraint constraints.txt \
    './packages/jackstay[http,redis]' ./packages/jackstay-apcore ./packages/jackstay-procontext

FROM python:3.13-slim
RUN useradd --system --uid 10001 --create-home --shell /usr/sbin/nologin jackstay
COPY --from=build /opt/venv /opt/venv
COPY examples/apcore_demo/extensions /srv/modules
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001
WORKDIR /home/jackstay
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=2)"]
# The server accepts requests for the host names localhost and 127.0.0.1 only; add --allow-host for others, and
# --auth-key-env before the port is reachable from a network.
CMD ["apcore-mcp", "--extensions-dir", "/srv/modules", "--transport", "streamable-http", \
     "--host", "0.0.0.0", "--port", "8000", "--explorer", "--metrics"]
