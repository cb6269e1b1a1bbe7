/**
 * Bugs for a copy of the code, which the checker must find: otherwise its findings mean nothing.
 *
 * @module
 */
import type { Habits } from "./recording_workers.ts";

/** A bug, made by replacing texts in source files. */
export interface Mutant {
  readonly title: string;
  /** Redis by default. */
  readonly strategy?: "zookeeper";
  readonly changes: readonly (readonly [file: string, from: string, to: string])[];
  /** The faults that reveal it. */
  readonly faults: readonly string[];
  readonly habits?: Partial<Habits>;
  /** How many locks the workers share; left out: as many as in any run. */
  readonly locks?: number;
}

/** Many disposals, and many calls with owner ids. */
const OFTEN: Partial<Habits> = { disposes: 20, shares: 200, holds: 300 };

/** Many calls of both modes. */
const READING: Partial<Habits> = { reads: 500, holds: 300 };

/** A reader of the instance counts as first, though others are ahead of it. */
const ANY_READER_IS_FIRST: Mutant["changes"] = [[
  "zookeeper/recipe/waiter.ts",
  "if (ahead.isAll) queue.recordFirst(this.#znode);",
  "queue.recordFirst(this.#znode);",
], [
  "zookeeper/acquisition.ts",
  "if (ahead === 0) znode.queue.recordFirst(znode);\n      if (blockers === 0) return;\n      this",
  "if (blockers === 0) {\n        znode.queue.recordFirst(znode);\n        return;\n      }\n      this",
]];

/** The bugs. Each must be found within a minute. */
export const MUTANTS: readonly Mutant[] = [
  {
    title: "release without the owner check",
    changes: [[
      "redis/protocol/scripts/leave.lua",
      "local is_mine = lock_value == owner_value and",
      "local is_mine = lock_value and",
    ]],
    faults: ["worker-freeze", "black-hole"],
  },
  {
    title: "a deadline that counts from the reply",
    changes: [
      [
        "redis/acquisition.ts",
        "this.#learn(answer);",
        "this.#learn(answer);\n" +
        "      this.#sent = { ...sent, nowMs: clock.now(), wallMs: clock.wall() };",
      ],
      [
        "core/lease/lease.ts",
        "const sent = attempt.turn ?? called;",
        "const sent = instant(clock);",
      ],
    ],
    faults: ["late-reply"],
    habits: { outlasts: 20, expires: 20 },
  },
  {
    title: "a search that takes the inbox whose first waiter came last",
    changes: [[
      "redis/protocol/scripts/parts/handoff.lua",
      "local _, inbox = first_of(keys, NEXT)",
      `local members = members_of(keys, NEXT, 64)
       local _, inbox
       if members[1] then _, inbox = read_member(NEXT, members[#members]) end`,
    ]],
    faults: ["worker-freeze"],
  },
  {
    title: "a disposal that releases at once, without a word to the holder",
    changes: [[
      "core/lease/lease.ts",
      "const { outlivesDisposal } = this.#grant;",
      `const { outlivesDisposal } = this.#grant;
       if (this.#grant !== null) return Promise.resolve();`,
    ]],
    faults: ["worker-freeze"],
    habits: OFTEN,
  },
  {
    title: "a disposal that does not keep the lock while the holder stops",
    changes: [["core/lease/lease_engine.ts", "kept.length > 0 && keepMs > 0", "kept.length < 0"]],
    faults: ["worker-freeze"],
    habits: OFTEN,
  },
  {
    title: "a reader that passes a waiting writer",
    changes: [[
      "redis/protocol/scripts/parts/ask_shared.lua",
      "local is_first = not waiter.last_ticket and may_hold(round, waiter.limit)",
      "local is_first = may_hold(round, waiter.limit)",
    ]],
    faults: ["worker-freeze"],
    habits: READING,
  },
  {
    title: "a limit that lets one more holder in",
    changes: [[
      "redis/protocol/scripts/parts/admit.lua",
      "round.holder_count < limit",
      "round.holder_count <= limit",
    ]],
    faults: ["worker-freeze"],
    habits: READING,
  },
  {
    title: "a holder of an earlier generation that counts as one of the present",
    changes: [[
      "redis/protocol/scripts/parts/shared.lua",
      "if not hold or hold.generation ~= generation or hold.expiry_ms <= now_ms",
      "if not hold or hold.expiry_ms <= now_ms",
    ], [
      "redis/protocol/scripts/parts/shared.lua", // else each grant sweeps two of them
      "if its_generation == generation and is_in_future(expiry, now_ms)",
      "if is_in_future(expiry, now_ms)",
    ]],
    faults: ["lock-deleted"],
    // Some readers of each generation outlive the next one.
    habits: { reads: 850, holds: 300, outlasts: 300 },
    locks: 4,
  },
  {
    title: "ZooKeeper: a holder that leaves counts as the only one ahead",
    strategy: "zookeeper",
    changes: [[
      "zookeeper/recipe/waiter.ts",
      "return predecessor.isDeleted ? await this.#existing(ahead) : null;",
      "return predecessor.isDeleted ? { ...ahead, entries: [] } : null;",
    ]],
    faults: ["worker-freeze"],
    habits: READING,
  },
  {
    title: "ZooKeeper: the rule of the next number behind a reader that is not the first",
    strategy: "zookeeper",
    changes: [...ANY_READER_IS_FIRST, [
      "zookeeper/recipe/waiter.ts",
      "view.blockersOf(name, holder?.name)",
      "view.blockersOf(name, undefined)",
    ]],
    faults: ["worker-freeze"],
    habits: READING,
  },
  {
    title: "ZooKeeper: a listing that is cut at a reader that is not the first",
    strategy: "zookeeper",
    changes: [...ANY_READER_IS_FIRST, [
      "zookeeper/recipe/waiter.ts",
      "holder?.sequence === this.sequence - 1",
      "holder?.sequence === this.sequence - 0.5",
    ]],
    faults: ["worker-freeze"],
    habits: READING,
  },
  {
    title: "ZooKeeper: a reader that passes a waiting writer",
    strategy: "zookeeper",
    changes: [[
      "zookeeper/recipe/queue_order.ts",
      "const blockers = blocking?.countBefore[index] ?? index;",
      "const blockers = blocking === null ? index : isSharedName(entries[0]!.name) ? 0 : 1;",
    ]],
    faults: ["worker-freeze"],
    habits: READING,
  },
  {
    title: "an attach that leaves the earlier lease as it is",
    changes: [[
      "redis/held_leases.ts",
      "if (held.lease.fencingToken < fencingToken)",
      "if (held.lease.fencingToken < 0n)",
    ]],
    faults: ["worker-freeze"],
    habits: OFTEN,
  },
];

/** A bug that the storm of `testing/load/sets_storm.ts` must find: a set that fails keeps what it has acquired. */
export const LEAKING_SET: Pick<Mutant, "title" | "changes"> = {
  title: "a set that leaks",
  changes: [[
    "core/sets/acquire_all.ts",
    "await releaseAll(held, signal);\n    if (!(error",
    "undefined;\n    if (!(error",
  ]],
};
