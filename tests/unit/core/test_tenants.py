"""Whose a session is: in its id, in its children's, and never by chance."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midcourse.core.ids import SessionId, StepId, child_id
from midcourse.core.request_checks import check_new_id
from midcourse.core.tenants import check_tenant, in_tenant, tenant_of
from midcourse.errors import InvalidInput

tenants = st.from_regex(r"[a-z0-9][a-z0-9-]{0,31}", fullmatch=True)
names = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,60}", fullmatch=True)


@given(tenants, names)
def test_what_a_tenant_names_is_its_own_however_it_is_written(tenant: str, name: str) -> None:
    whole = in_tenant(tenant, name)

    assert tenant_of(whole) == check_tenant(tenant)
    assert in_tenant(tenant, whole) == check_new_id(whole) == whole
    assert tenant_of(child_id(whole, StepId("1/spawn#1"))) == tenant


@given(tenants, tenants, names)
def test_nobody_names_another_tenants(tenant: str, other: str, name: str) -> None:
    if tenant == other:
        return
    with pytest.raises(InvalidInput, match="names the tenant"):
        in_tenant(tenant, in_tenant(other, name))


def test_what_has_no_mark_is_of_the_default_tenant() -> None:
    assert tenant_of("sess_x") == tenant_of("~sess_x") == ""
    assert in_tenant("", "sess_x") == SessionId("sess_x")


@pytest.mark.parametrize("wanted", ["~x", "acme~", "a~b~c", "Acme~x", "acme~x.y", "acme~~x", "-a~x", "x" * 33 + "~x"])
def test_what_would_be_of_two_tenants_or_of_none_is_no_id(wanted: str) -> None:
    with pytest.raises(InvalidInput):
        check_new_id(wanted)


@pytest.mark.parametrize("name", ["", "Acme", "a b", "a~b", "-a", "a" * 33, "ä", "a\n"])
def test_a_tenants_name_is_short_and_plain(name: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be a tenant's name"):
        check_tenant(name)
