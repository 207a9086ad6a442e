"""A Flask application with one route, for `flask apcore scan` and `flask apcore serve`."""

from flask import Flask
from flask_apcore import Apcore

app = Flask(__name__)
Apcore(app)


@app.get("/hello")
def hello() -> dict[str, str]:
    """Say hello."""
    return {"text": "hello"}
