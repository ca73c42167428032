"""The page of the laws says what the suite has."""

from laws_page import GROUPS, PAGE, page

from stead.conformance.environment_laws import LAWS


def test_page_is_the_suite():
    """docs/reference/laws.md is what the generator writes."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_group_has_a_title():
    """Each letter that a law's number has is a group of the page."""
    assert {spec.number[0] for spec in LAWS.values()} <= set(GROUPS)
