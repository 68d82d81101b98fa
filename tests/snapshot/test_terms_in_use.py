"""Terms in use: those that mean a pod are found, whatever they want, as long as they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.pod_affinity import AffinityTerm
from scheduler.api.selectors import EVERYTHING, NOTHING, Requirement, Selector
from scheduler.snapshot.terms_in_use import TermsInUse

if TYPE_CHECKING:
    from collections.abc import Sequence


def term(*requirements: Requirement, key: str = "zone") -> AffinityTerm:
    selector = Selector(requirements) if requirements else EVERYTHING
    return AffinityTerm(frozenset({"own"}), selector, key, NOTHING)


WEB = term(Requirement("app", "In", ("web",)))
WEB_OR_DB = term(Requirement("tier", "Exists"), Requirement("app", "In", ("web", "db")), key="host")
UNTIERED = term(Requirement("tier", "DoesNotExist"))
ALL = term(key="host")
NOBODY = AffinityTerm(frozenset({"own"}), NOTHING, "rack", NOTHING)


def test_terms_are_found_by_the_pod_they_mean() -> None:
    terms = TermsInUse()
    terms.add([WEB, WEB_OR_DB, UNTIERED, NOBODY])
    assert terms.about("own", {"app": "web"}, {}) == {"zone": {WEB, UNTIERED}}
    assert terms.about("own", {"app": "db", "tier": "x"}, {}) == {"host": {WEB_OR_DB}}
    assert terms.about("other", {"app": "web"}, {}) == {}
    assert set(terms.topology_keys) == {"zone", "host", "rack"}


def test_a_term_is_there_until_its_last_user_has_gone() -> None:
    terms = TermsInUse()
    terms.add([WEB])
    terms.add([WEB])
    terms.remove([WEB])
    assert terms.about("own", {"app": "web"}, {}) == {"zone": {WEB}}
    terms.remove([WEB])
    assert not terms.about("own", {"app": "web"}, {})
    assert (len(terms), list(terms.topology_keys)) == (0, [])


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    st.lists(st.lists(st.sampled_from((WEB, WEB_OR_DB, UNTIERED, ALL, NOBODY)), max_size=3)),
    st.dictionaries(st.sampled_from(("app", "tier")), st.sampled_from(("web", "db", "x"))),
    st.data(),
)
def test_what_is_found_is_what_asking_all_would_find(
    users: Sequence[Sequence[AffinityTerm]], labels: dict[str, str], data: st.DataObject
) -> None:
    terms = TermsInUse()
    for user in users:
        terms.add(user)
    gone = data.draw(st.integers(0, len(users)))
    for user in users[:gone]:
        terms.remove(user)
    left = {term for user in users[gone:] for term in user}
    expected: dict[str, set[AffinityTerm]] = {}
    for used in left:
        if used.matches("own", labels, {}):
            expected.setdefault(used.topology_key, set()).add(used)
    assert terms.about("own", labels, {}) == expected
    assert all((used in terms) == (used in left) for used in (WEB, WEB_OR_DB, UNTIERED, ALL))
