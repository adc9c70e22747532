"""The inbox and webhooks of a server, from Python."""

from pathlib import Path

import pytest

from midcourse.errors import InvalidInput, Refused, SessionNotFound
from midcourse.handle.http import RemoteMidcourse
from midcourse.policy.artifact_shelf import ARTIFACTS, artifact_items
from midcourse.policy.artifacts import ArtifactReported
from tests.client.live_server import both


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


async def test_artifacts_are_the_same_values_as_on_an_open_store_and_can_be_reviewed(tmp_path: Path) -> None:
    async with both(tmp_path) as (here, mc):
        assert await mc.artifacts() == []
        await asking(mc, "sess_1")
        made = ArtifactReported(name="a/b c.md", session="sess_1", agent="served-asker", position=2, made_at=1.0)
        await here._worker.store.shelve(ARTIFACTS, artifact_items(made))  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        [found] = await mc.artifacts(session="sess_1", due=True)
        assert (found.name, found.documentation, found.due_at) == ("a/b c.md", "", 1.0)
        assert (
            [found]
            == await here.artifacts()
            == list((await mc.inbox()).artifacts)
            == list((await here.inbox()).artifacts)
        )
        done = await mc.reviewed("sess_1", "a/b c.md", "the figures of May")
        assert (done.reviewed_by, done.documentation) == ("local", "the figures of May")
        assert [done] == await here.artifacts(session="sess_1")
        assert await mc.artifacts(due=True) == []
        assert (await here.reviewed("sess_1", "a/b c.md", by="bob")).reviewed_by == "bob"
        with pytest.raises(InvalidInput, match="no artifact 'x'") as caught:
            await mc.reviewed("sess_1", "x")
        assert caught.value.code == "artifact_not_found"
        with pytest.raises(InvalidInput, match="2,000 characters"):
            await mc.reviewed("sess_1", "x", "y" * 2001)


async def test_a_webhook_is_added_tried_and_removed(tmp_path: Path) -> None:
    async with both(tmp_path) as (_, mc):
        made, secret = await mc.webhooks.add("http://127.0.0.1:1/", ["*"], about="the pager")
        assert (made.kinds, made.about, secret.startswith("whsec_")) == (("*",), "the pager", True)
        tried = await mc.webhooks.test(made.id)
        assert (tried.state, tried.kind) == ("given_up", "webhook.test")
        assert [one.id for one in await mc.webhooks.deliveries(made.id)] == [tried.id]
        assert [(one.id, one.given_up) for one in await mc.webhooks.list()] == [(made.id, 1)]
        await mc.webhooks.remove(made.id)
        assert list(await mc.webhooks.list()) == []
        with pytest.raises(InvalidInput, match="There is no webhook"):
            await mc.webhooks.deliveries(made.id)
        with pytest.raises(InvalidInput, match="The kinds are"):
            await mc.webhooks.add("http://127.0.0.1:1/", ["ask.open"])
