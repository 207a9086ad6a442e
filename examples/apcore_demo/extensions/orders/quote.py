"""A module with nested models: lists, enumerations, optional fields, maps."""

from enum import StrEnum
from typing import Any, ClassVar

from apcore import Context, ModuleAnnotations
from pydantic import BaseModel, Field


class Shipping(StrEnum):
    standard = "standard"
    express = "express"
    pickup = "pickup"


class Address(BaseModel):
    street: str
    town: str
    postcode: str = Field(pattern=r"^[A-Z0-9 -]{3,10}$")
    country: str = Field(default="DE", min_length=2, max_length=2, description="Two letters, ISO 3166.")


class Item(BaseModel):
    article: str = Field(description="What is bought.")
    quantity: int = Field(default=1, ge=1, le=1000)
    price: float = Field(gt=0, description="For one, in euros.")
    options: dict[str, str] = Field(default_factory=dict, description="Colour, size and the like.")


class Input(BaseModel):
    items: list[Item] = Field(min_length=1, description="At least one.")
    address: Address | None = Field(default=None, description="Not needed for pickup.")
    shipping: Shipping = Shipping.standard
    coupon: str | None = Field(default=None, description="TENOFF takes ten percent off.")


class Line(BaseModel):
    article: str
    total: float


class Output(BaseModel):
    lines: list[Line]
    shipping: float
    discount: float
    total: float
    ships_to: Address | None


class Quote:
    """What an order would cost, shipping and coupon included."""

    description = "What an order would cost, shipping and coupon included. Nothing is ordered."
    documentation = """# Quotes

A quote is the sum of the items, minus the discount of a coupon, plus the shipping:

| shipping | euros |
|---|---|
| standard | 4.90 |
| express | 12.50 |
| pickup | 0.00 |
"""
    input_schema = Input
    output_schema = Output
    tags: ClassVar = ["orders"]
    annotations = ModuleAnnotations(readonly=True, idempotent=True, open_world=False)

    def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:  # noqa: ARG002  # apcore's
        order = Input.model_validate(inputs)
        lines = [{"article": item.article, "total": round(item.price * item.quantity, 2)} for item in order.items]
        goods = sum(line["total"] for line in lines)
        shipping = {"standard": 4.9, "express": 12.5, "pickup": 0.0}[order.shipping.value]
        discount = round(goods / 10, 2) if order.coupon == "TENOFF" else 0.0
        return {
            "lines": lines,
            "shipping": shipping,
            "discount": discount,
            "total": round(goods - discount + shipping, 2),
            "ships_to": order.address.model_dump() if order.address else None,
        }
