"""The inbox and webhooks of a server, from Python."""

from pathlib import Path

import pytest

from midcourse.client import RemoteMidcourse
from midcourse.errors import InvalidInput, Refused, SessionNotFound
from tests.client.serving import both


async def asking(mc: RemoteMidcourse, name: str) -> None:
    session = await mc.start("served-asker", "May I?", session_id=name)
    await session.next_ask(timeout=30)


async def test_the_inbox_is_the_same_value_as_on_an_open_store_and_asks_can_be_taken(tmp_path: Path) -> None:
    async with both(tmp_path) as (here, mc):
        assert (await mc.inbox()).asks == ()
        await asking(mc, "sess_1")
        found = await mc.inbox()
        [ask] = found.asks
        assert (ask.session, ask.prompt, ask.owner, found.you) == ("sess_1", "May I?", "local", "local")
        assert (await here.inbox()).asks == found.asks
        assert ask.due_at == ask.opened_at + 300
        assert (await mc.own("sess_1", "ask_1", "bob")).owner == "bob"
        assert (await mc.own("sess_1", "ask_1")).owner == "local"
        over = await mc.hand_over("bob", 60)
        assert (over.name, over.to) == ("local", "bob")
        with pytest.raises(Refused, match="no open ask"):
            await mc.own("sess_1", "ask_7")
        with pytest.raises(SessionNotFound):
            await mc.own("sess_none", "ask_1")


async def test_a_webhook_is_added_tried_and_removed(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, mc):
        made, secret = await mc.webhooks.add("http://127.0.0.1:1/", ["*"], about="the pager")
        assert (made.kinds, made.about, secret.startswith("whsec_")) == (("*",), "the pager", True)
        tried = await mc.webhooks.test(made.id)
        assert (tried.state, tried.kind) == ("given_up", "webhook.test")
        assert [one.id for one in await mc.webhooks.deliveries(made.id)] == [tried.id]
        assert [(one.id, one.given_up) for one in await mc.webhooks.list()] == [(made.id, 1)]
        await mc.webhooks.remove(made.id)
        assert await mc.webhooks.list() == ()
        with pytest.raises(InvalidInput, match="There is no webhook"):
            await mc.webhooks.deliveries(made.id)
        with pytest.raises(InvalidInput, match="The kinds are"):
            await mc.webhooks.add("http://127.0.0.1:1/", ["ask.open"])
