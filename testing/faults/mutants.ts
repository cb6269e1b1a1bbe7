/**
 * Bugs for a copy of the code, which the checker must find: otherwise its findings mean nothing.
 *
 * @module
 */
import type { Habits } from "./workers.ts";

/** A bug, made by replacing texts in source files. */
export interface Mutant {
  readonly title: string;
  readonly changes: readonly (readonly [file: string, from: string, to: string])[];
  /** The faults that reveal it. */
  readonly faults: readonly string[];
  readonly habits?: Partial<Habits>;
}

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
        "redis/protocol/commands.ts",
        "const result = { answer, sent,",
        "const result = { answer, sent: instant(clock),",
      ],
      [
        "core/lease.ts",
        "this.#onAnswer(sent, ttlMs, answer)",
        "this.#onAnswer(instant(clock), ttlMs, answer)",
      ],
    ],
    faults: ["late-reply"],
    habits: { outlasts: 20, expires: 20 },
  },
  {
    title: "a search that takes the inbox whose first waiter came last",
    changes: [[
      "redis/protocol/scripts/parts/next_waiter.lua",
      "local _, inbox = first_of(keys, NEXT)",
      `local members = members_of(keys, NEXT, 64)
       local _, inbox
       if members[1] then _, inbox = read_member(NEXT, members[#members]) end`,
    ]],
    faults: ["worker-freeze"],
  },
];
