"""Every code that the server answers with: its HTTP status, what it means, and what to do about it."""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Code(NamedTuple):
    """One kind of problem."""

    status: int
    means: str


CODES: Final[Mapping[str, Code]] = {
    "unreadable_body": Code(400, "The body is not JSON in UTF-8, or nested too deeply. Send what can be read."),
    "invalid_cursor": Code(400, "The cursor is no `next` of this list. Leave it out to begin again."),
    "unauthorized": Code(401, "No token or browser session, or none that is valid. Send a token, or log in again."),
    "login_refused": Code(401, "The code was used or is too old, or the token is not valid. Get a new link."),
    "forbidden": Code(403, "The token's role is too low, or it belongs to another session. Use another token."),
    "origin_not_allowed": Code(403, "A page of another site sent it. Allow that site when the server starts."),
    "approver_only": Code(403, "The ask wants an approval. A person with the role `approve` answers it."),
    "operator_only": Code(403, "To lift a kill switch, or to force what finishes first, takes the role `operate`."),
    "own_ask": Code(403, "An agent cannot answer what its session asks, nor close it. A person does."),
    "not_for_agents": Code(403, "An agent may not do this, whatever token it uses. A person does."),
    "not_found": Code(404, "There is nothing at this address. The document lists the addresses."),
    "session_not_found": Code(404, "There is no such session. List the sessions, or check the id."),
    "checkpoint_not_found": Code(404, "There is no such pause or ask to continue from. Get the session again."),
    "ask_not_found": Code(404, "There is no such ask. The session lists those that are open."),
    "message_not_found": Code(404, "There is no such message. The session lists its messages."),
    "intervention_not_found": Code(404, "There is no such intervention. The session's list names those there were."),
    "artifact_not_found": Code(404, "The session has reported no such artifact. List the artifacts."),
    "kill_switch_not_found": Code(404, "There is no such kill switch. List them."),
    "webhook_not_found": Code(404, "There is no such webhook. List the webhooks."),
    "token_not_found": Code(404, "There is no token of that name. List the tokens."),
    "browser_session_not_found": Code(404, "There is no such browser session. List them, or log in."),
    "proposal_not_found": Code(404, "There is no such proposal. List the proposals."),
    "policy_not_found": Code(404, "There is no such policy, or not that version of it. List the policies."),
    "blob_not_found": Code(404, "There is no such value. Events name values by their digest."),
    "method_not_allowed": Code(405, "The address takes other methods; the header Allow lists them."),
    "request_timeout": Code(408, "The body took too long to arrive. Send it again."),
    "session_ended": Code(409, "The session has ended. A message or redirect opens a new turn of it."),
    "already_resumed": Code(
        409, "It continues already, or was answered before. One that waits continues with its answer."
    ),
    "already_lifted": Code(409, "The kill switch was lifted before. There is nothing to do."),
    "kill_switch_stands": Code(
        409, "A kill switch is in force over the session. An operator (`operate`) lifts it first."
    ),
    "already_answered": Code(409, "The ask was answered or closed before. There is nothing to do."),
    "ask_id_required": Code(409, "It is not clear which ask is meant. Name one; the problem lists them."),
    "unclear_answer": Code(
        409, "The answer is nearly a word that decides (`ok` is no `yes`). Say that word, or a sentence."
    ),
    "session_discarded": Code(409, "The session was forced to end half-way. Continue in the one that began anew."),
    "session_erased": Code(409, "What was said in the session was erased. Start a new one."),
    "not_ended": Code(409, "The session has not ended, and its texts are needed until then. Cancel it first."),
    "session_busy": Code(409, "A worker has the session just now. Try again."),
    "not_allowed": Code(409, "Not in the session's present status; `allowed` lists what is."),
    "busy": Code(409, "The agent works, and the message was only for one that does not. Wait, or let it queue."),
    "message_seen": Code(409, "The agent's model has seen the message. Redirect it instead."),
    "not_raised": Code(409, "A budget can only be raised. Give a larger one."),
    "budget_spent": Code(409, "The session has reached its budget. Raise it to the sum that the problem names."),
    "session_damaged": Code(409, "The session's journal is damaged. Restore the store, or start anew."),
    "session_exists": Code(409, "There is a session with that id. Leave the id out, or use another."),
    "agent_mismatch": Code(409, "The session is another agent's. Leave session_id out to start a new one."),
    "proposal_settled": Code(409, "It was accepted, refused or superseded before. There is nothing to do."),
    "too_few_runs": Code(409, "Too few recorded runs failed, or succeeded, to say anything. Record and label more."),
    "too_many_runs": Code(409, "Trying so many runs takes too long. Take fewer, or those since a later time."),
    "no_recordings": Code(409, "No session here has called a model or a tool since then. Let one run first."),
    "policy_unchanged": Code(409, "The newest version of the policy says the same. There is nothing to save."),
    "too_many_webhooks": Code(409, "As many webhooks as are kept are there. Remove one that is not needed."),
    "identity_would_change": Code(409, "The browser is logged in as another user. Confirm it with `replace`."),
    "token_exists": Code(409, "There is a token of that name. Revoke it first, or use another name."),
    "precondition_failed": Code(412, "It has moved on from the ETag in If-Match. Look again, then decide."),
    "body_too_large": Code(413, "The body is too large. Put the long part where the agent can read it."),
    "host_not_allowed": Code(421, "The server does not go by that name. Use the address it printed."),
    "invalid_input": Code(422, "A part of the request cannot be used; `field` names it."),
    "address_refused": Code(422, "No webhook goes there: it is no address, or not a public one."),
    "unencodable": Code(422, "The value cannot be journaled. The sentence names what is wrong with it."),
    "agent_unavailable": Code(422, "This server does not know the agent. /agents lists those it knows."),
    "command_id_taken": Code(422, "The Idempotency-Key was used for another command. Use a fresh one."),
    "idempotency_key_reused": Code(422, "The Idempotency-Key was used for something else. Use a fresh one."),
    "too_many_requests": Code(429, "Too many requests from this caller. Wait as long as Retry-After says."),
    "too_many_streams": Code(429, "Too many streams are open. Close some, or wait for some to end."),
    "damaged": Code(500, "What is stored does not match its checksum. Restore the store from a backup."),
    "internal_error": Code(500, "This is unexpected; the server's log has the details. Nothing is lost."),
    "not_started": Code(
        503, "The server is mounted, and its store was never opened. Give its lifespan to the application."
    ),
    "not_ready": Code(503, "Its store cannot be written to, or commands are not heard; `checks` says. Use another."),
    "draining": Code(503, "The server is about to end and starts nothing new. Try again; another one takes over."),
    "store_unavailable": Code(503, "The store cannot be used now. Try again; nothing was changed."),
    "store_full": Code(507, "No space is left where the store lives. Make some; nothing was changed."),
}
"""Codes that are not here have the status of their error's class: other errors of a store are 503."""
