"""The list of protections that are taken out: each stands where it is said, as does its test."""

import pytest
from support.unprotected import PROTECTIONS, ROOT, Protection


@pytest.mark.parametrize("protection", PROTECTIONS, ids=lambda one: one.fault)
def test_a_protection_stands_once_and_has_a_test(protection: Protection):
    assert (ROOT / protection.file).read_text(encoding="utf-8").count(protection.text) == 1
    assert protection.without != protection.text
    file, _, name = protection.test.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


def test_the_page_tells_of_every_protection():
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    for protection in PROTECTIONS:
        name = protection.test.rpartition("::")[2]
        assert f"| {protection.fault} | `{protection.file}` | `{name}` fails |" in page
