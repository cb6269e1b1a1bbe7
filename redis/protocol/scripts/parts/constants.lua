-- Constants that several scripts share. A test checks that TypeScript's of the same name are equal.

-- Replies of ask and steal: their first item.
local GRANTED = 1
local HELD = 0
local QUEUED = 2
local TOO_LATE = -1
local OWNER_HAS_LEFT = -2
-- The same, and the third item of a reply of leave: the search for the next waiter is not over.
local SEARCHING = 3
-- Replies of leave and renew: their first item.
local DONE = 1
local GONE = 0
local OTHER_OWNER = -1
-- Replies of leave: their second item.
local NOTIFIED = 1
local NOT_NOTIFIED = 0
-- Replies of leave: their third item, unless it is SEARCHING.
local FINISHED = 1

-- Fields of the waiters hash. A prefix is followed by an owner value or by the id of an inbox.
local LAST_TICKET_FIELD = 'last_ticket'
local HOLDER_FIELD = 'holder'
local WAITER_PREFIX = 'waiter:'
local INBOX_PREFIX = 'inbox:'
local LISTENING_PREFIX = 'listening:'
local PARKED_PREFIX = 'parked:'
-- A tombstone, which leave.lua writes, refuses late copies of the asks of an owner that has left.
local TOMBSTONE_PREFIX = 'tombstone:'

-- How long the keys of the queue live unless an ask, a tombstone or a parked inbox extends them.
local QUEUE_LIFE_MS = 90000
-- Lease of an inbox: how long its process counts as alive after an ask.
local INBOX_LEASE_MS = 6000

-- The reply of PTTL for a key that does not exist.
local NO_KEY_MS = -2
-- No call of a script looks at more waiters than this, or at more inboxes, or at one inbox twice.
local MAX_LOOKED_AT = 64
