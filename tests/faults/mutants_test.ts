/**
 * Bugs that are put into a copy of our own code: the checker must find each of them. Soak only.
 */
import { assert, assertLess } from "@std/assert";
import { runCommand } from "../../testing/servers/command.ts";
import { say } from "../../testing/processes/figures.ts";
import { check } from "../../testing/faults/checker.ts";
import type { run as runHere } from "../../testing/faults/runner.ts";
import type { Habits } from "../../testing/faults/workers.ts";

const SOAK = Deno.env.get("HOLDFAST_SOAK") !== undefined;
const ROOT = new URL("../../", import.meta.url).pathname;
/** What the runs import, and all scripts that are embedded. */
const COPIED = [
  ...["core", "file", "redis", "zookeeper", "memory", "http", "lock_service", "fencing"],
  ...["examples", "testing", "tools"],
];
const FILES = ["mod.ts", "deno.json", "deno.lock"];
const COMMAND_BOUND_MS = 60_000;
const RUN_MS = 25_000;
/** As the project's aims name it. */
const CAUGHT_WITHIN_MS = 60_000;

/** A bug: what of a file is replaced by what. */
interface Mutant {
  readonly title: string;
  readonly changes: readonly (readonly [file: string, from: string, to: string])[];
  /** What brings it to light. */
  readonly faults: readonly string[];
  readonly habits?: Partial<Habits>;
}

const MUTANTS: readonly Mutant[] = [
  {
    title: "release without the owner check",
    changes: [[
      "redis/protocol/scripts/leave.lua",
      "local mine = value == ARGV[1]",
      "local mine = value",
    ]],
    faults: ["worker-freeze", "black-hole"],
  },
  {
    title: "a deadline that counts from the reply",
    changes: [
      [
        "redis/protocol/commands.ts",
        "return { answer, sent,",
        "return { answer, sent: instant(clock),",
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
    title: "a grant that does not remove the waiter",
    changes: [[
      "redis/protocol/scripts/_grant.lua",
      "redis.call('ZPOPMIN', KEYS[2])",
      "redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')",
    ]],
    faults: ["worker-freeze"],
  },
];

/** A copy of the code with the bug in it. */
async function mutate(directory: string, { changes }: Mutant): Promise<void> {
  const paths = [...COPIED, ...FILES].map((name) => `${ROOT}${name}`);
  const there = paths.filter((path) => {
    try {
      return Deno.statSync(path) !== null;
    } catch {
      return false; // no lock file, say
    }
  });
  const copied = await runCommand(["cp", "-R", ...there, directory], COMMAND_BOUND_MS);
  assert(copied.success, copied.output);
  for (const [file, from, to] of changes) {
    const path = `${directory}/${file}`;
    const text = await Deno.readTextFile(path);
    assert(text.includes(from), `${file} has changed: nothing to put the bug in`);
    await Deno.writeTextFile(path, text.replace(from, () => to));
  }
  const embed = [Deno.execPath(), "run", "-A", `${directory}/tools/embed_lua.ts`];
  const embedded = await runCommand(embed, COMMAND_BOUND_MS);
  assert(embedded.success, embedded.output);
}

for (const mutant of MUTANTS) {
  Deno.test({
    name: `a mutant is caught: ${mutant.title}${SOAK ? "" : " [soak only]"}`,
    ignore: !SOAK,
    sanitizeResources: false, // the copy's clock keeps its library open
    async fn() {
      const directory = await Deno.makeTempDir({ prefix: "holdfast-mutant-" });
      try {
        await mutate(directory, mutant);
        const { run }: { run: typeof runHere } = await import(
          `${directory}/testing/faults/runner.ts`
        );
        const startMs = performance.now();
        const { history, problems } = await run({
          ...{ strategy: "redis", seed: 1, durationMs: RUN_MS, residueBoundMs: 1_000 },
          ...{ faults: mutant.faults, habits: { crashes: 0, steals: 0, ...mutant.habits } },
        });
        const { violations, counts } = check(history);
        const tookMs = performance.now() - startMs;
        say(`${mutant.title}: ${JSON.stringify(counts.violations)}, ${problems.length} problems`);
        assert(violations.length + problems.length > 0, "nobody saw it");
        assertLess(tookMs, CAUGHT_WITHIN_MS);
      } finally {
        await Deno.remove(directory, { recursive: true });
      }
    },
  });
}
