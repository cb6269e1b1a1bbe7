/**
 * Runs a copy of our code with a bug, for each mutant. The checker must find every bug, and nothing in
 * the code without one. Runs only in a soak.
 */
import { assert, assertEquals, assertLess } from "@std/assert";
import { runCommand } from "../../testing/servers/command.ts";
import { say } from "../../testing/processes/figures.ts";
import { check } from "../../testing/faults/checker.ts";
import type { run as runHere } from "../../testing/faults/runner.ts";
import { type Mutant, MUTANTS } from "../../testing/faults/mutants.ts";
import { CONDITION_BOUND_MS, LONG_BOUND_MS } from "../../testing/time.ts";

const SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));
const ROOT = new URL("../../", import.meta.url).pathname;
/** The folders that the runs import, and those of the embedded scripts. */
const COPIED = [
  ...["core", "file", "redis", "zookeeper", "memory", "http", "lock_service", "fencing"],
  ...["examples", "testing", "tools"],
];
const FILES = ["mod.ts", "deno.json", "deno.lock"];
const COMMAND_BOUND_MS = LONG_BOUND_MS;
const RUN_MS = 25_000;
/** Locks that outlive their disposal stay until their TTL is over: 2 s at most. */
const RESIDUE_BOUND_MS = 5_000;
/** The time limit that the project sets itself. */
const CAUGHT_WITHIN_MS = CONDITION_BOUND_MS;

/** A copy of the code with the bug in it. */
async function mutate(directory: string, { changes }: Mutant): Promise<void> {
  const paths = [...COPIED, ...FILES].map((name) => `${ROOT}${name}`);
  const there = paths.filter((path) => {
    try {
      return Deno.statSync(path) !== null;
    } catch {
      return false; // for example, there is no lock file
    }
  });
  const copied = await runCommand(["cp", "-R", ...there, directory], COMMAND_BOUND_MS);
  assert(copied.success, copied.output);
  for (const [file, from, to] of changes) {
    const path = `${directory}/${file}`;
    const text = await Deno.readTextFile(path);
    assert(
      text.includes(from),
      `${file} has changed: adapt the mutant in testing/faults/mutants.ts`,
    );
    await Deno.writeTextFile(path, text.replace(from, () => to));
  }
  const embed = [Deno.execPath(), "run", "-A", `${directory}/tools/embed_lua.ts`];
  const embedded = await runCommand(embed, COMMAND_BOUND_MS);
  assert(embedded.success, embedded.output);
}

/** The same run without a bug. If it found something, the findings for mutants would prove nothing. */
const CONTROL: Mutant = { title: "none", changes: [], faults: ["worker-freeze", "black-hole"] };

for (const mutant of [CONTROL, ...MUTANTS]) {
  const isControl = mutant === CONTROL;
  const title = isControl
    ? "check() finds nothing in code without a mutant"
    : `check() catches a mutant: ${mutant.title}`;
  Deno.test({
    name: `${title}${SOAK ? "" : " [soak only]"}`,
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
          ...{
            strategy: mutant.strategy ?? "redis",
            seed: 1,
            durationMs: RUN_MS,
            residueBoundMs: RESIDUE_BOUND_MS,
          },
          ...{ faults: mutant.faults, habits: { crashes: 0, steals: 0, ...mutant.habits } },
        });
        const { violations, counts } = check(history);
        const tookMs = performance.now() - startMs;
        say(`${mutant.title}: ${JSON.stringify(counts.violations)}, ${problems.length} problems`);
        const found = violations.length + problems.length;
        if (isControl) return assertEquals(found, 0, JSON.stringify([violations, problems]));
        assert(found > 0, "no violation was found");
        assertLess(tookMs, CAUGHT_WITHIN_MS);
      } finally {
        await Deno.remove(directory, { recursive: true });
      }
    },
  });
}
