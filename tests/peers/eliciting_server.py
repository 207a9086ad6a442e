"""A server with elicitations, for tests of the command line."""

import msgspec

from jackstay import Context, Server

server = Server("eliciting", instructions="Be polite.")


class Order(msgspec.Struct):
    city: str
    days: int = 3
    express: bool = False


@server.tool
async def book(name: str, count: int, ctx: Context) -> str:
    answer = await ctx.elicit("Where to?", Order)
    return f"{name} {count} {answer.action} {answer.data}"


@server.tool
async def confirm(ctx: Context) -> dict[str, int]:
    await ctx.elicit_url("Sign in", "https://x.example/sign-in")
    return {"a": 1}


@server.prompt
def review(code: str, language: str = "py") -> str:
    return f"Review {code} in {language}"


@server.completion("review", "language")
def languages(value: str) -> list[str]:
    return [one for one in ("python", "perl") if one.startswith(value)]


if __name__ == "__main__":
    server.run()
