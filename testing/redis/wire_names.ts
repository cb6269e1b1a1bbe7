/**
 * Names, reply codes and durations that only the scripts and the tests know. A test compares them with the
 * constants of the scripts that have the same names.
 *
 * @module
 */
import { SHARED_OWNER_ID } from "../../core/contract/options.ts";

/** A shared lock: the value of its key, before the generation of its holders. */
export const SHARED_OWNER: string = `${SHARED_OWNER_ID}#`;

/** Field: the last ticket. */
export const LAST_TICKET_FIELD = "last_ticket";
/** Field: the last member that a sweep has looked at. */
export const SWEPT_FIELD = "swept";
/** Field: the holder that got the lock from the queue. */
export const HOLDER_FIELD = "holder";
/** The first word of that field until the holder has shown that it is alive. */
export const UNCONFIRMED = "unconfirmed";
/** Prefix of the record of a waiter. The owner value follows. */
export const WAITER_PREFIX = "waiter:";
/** Prefix of the lease of an inbox. Its id follows. */
export const INBOX_PREFIX = "inbox:";
/** Prefix of the mark that an inbox was seen with a subscriber. Its id follows. */
export const LISTENING_PREFIX = "listening:";
/** Prefix of the time until which a parked inbox is kept. Its id follows. */
export const PARKED_PREFIX = "parked:";
/** Prefix of a tombstone. The refused owner value follows. */
export const TOMBSTONE_PREFIX = "tombstone:";
/** Prefix of a shared holder. Its owner value follows. */
export const SHARED_PREFIX = "shared:";

/** Third item of a reply to a leave: nobody has to send it again. */
export const FINISHED = 1;
/** In a queued reply: the holder does not use this library, so its release notifies nobody. */
export const HOLDER_IS_FOREIGN = 0;

/** How long in ms a queue lives without an ask, and a hash with tombstones. */
export const QUEUE_LIFE_MS = 90_000;
/** How long in ms the last fencing token outlives its lock. */
export const TOKEN_OUTLIVES_LOCK_MS = 60_000;
