"""What makes a class a plugin, and what authors can import."""

from __future__ import annotations

from scheduler import framework
from scheduler.framework import Plugin


class Guard(Plugin):
    pass


class Renamed(Plugin):
    name = "example.com/Guard"


class Child(Renamed):
    pass


def test_a_plugin_is_named_after_its_class_unless_it_says_otherwise() -> None:
    assert Guard.name == "Guard"
    assert Renamed.name == "example.com/Guard"


def test_a_plugin_does_not_inherit_its_name() -> None:
    assert Child.name == "Child"


def test_a_plugin_tells_its_name() -> None:
    assert repr(Renamed()) == "<plugin example.com/Guard>"


def test_a_plugin_takes_no_arguments_unless_it_says_which() -> None:
    assert Guard.Args is None


def test_the_door_offers_what_it_says() -> None:
    assert all(hasattr(framework, name) for name in framework.__all__)
