/**
 * What the scripts store: names and durations that only the server and the tests know. A test compares
 * them with the constants of the scripts, by name.
 *
 * @module
 */

/** The field of the ticket that was given last. */
export const LAST_TICKET_FIELD = "last_ticket";
/** Before the owner value of a waiter. */
export const WAITER_PREFIX = "waiter:";
/** Before the id of an inbox. */
export const INBOX_PREFIX = "inbox:";
/** Before the id of an inbox that has proved that it listens. */
export const LISTENING_PREFIX = "listening:";
/** The field that says until when waiters of a parked inbox may return. */
export const PARKED_UNTIL_FIELD = "parked_until";
/** Before an owner value whose asks are refused. */
export const TOMBSTONE_PREFIX = "tombstone:";

/** Longest life in ms of a queue in which nobody asks, and of tombstones. */
export const QUEUE_LIFE_MS = 30_000;
/** How long in ms the last fencing token outlives its lock. */
export const TOKEN_OUTLIVES_LOCK_MS = 60_000;
