"""The interface of plugins, and the names that authors can import."""

from scheduler import framework
from scheduler.framework import Plugin


class Guard(Plugin):
    pass


class Renamed(Plugin):
    name = "example.com/Guard"


class Child(Renamed):
    pass


def test_a_plugin_has_the_name_of_its_class_by_default() -> None:
    assert Guard.name == "Guard"
    assert Renamed.name == "example.com/Guard"


def test_a_plugin_does_not_inherit_its_name() -> None:
    assert Child.name == "Child"


def test_the_repr_of_a_plugin_has_its_name() -> None:
    assert repr(Renamed()) == "<plugin example.com/Guard>"


def test_a_plugin_takes_no_arguments_by_default() -> None:
    assert Guard.Args is None


def test_all_exported_names_exist() -> None:
    assert all(hasattr(framework, name) for name in framework.__all__)
