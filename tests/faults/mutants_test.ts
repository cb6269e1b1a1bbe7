/**
 * Runs a copy of our code with a bug, for each mutant. The checker must find every bug, and nothing in
 * the code without one. Runs only in a soak.
 */
import { assert, assertEquals, assertLess, assertRejects } from "@std/assert";
import { runCommand } from "../../testing/servers/command.ts";
import { say } from "../../testing/processes/figures.ts";
import { check } from "../../testing/faults/checker.ts";
import type { run as runHere } from "../../testing/faults/runner.ts";
import { LEAKING_SET, type Mutant, MUTANTS } from "../../testing/faults/mutants.ts";
import type { setsStorm as setsStormHere } from "../../testing/load/sets_storm.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { CONDITION_BOUND_MS, ENDING_TTL_MS, LONG_BOUND_MS, scaled } from "../../testing/time.ts";

const SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));
const ROOT = new URL("../../", import.meta.url).pathname;
/** What no run imports. */
const NOT_COPIED = ["bench", "coverage", "docs", "node_modules", "tests"];
const FILES = ["mod.ts", "deno.json", "deno.lock"];
const COMMAND_BOUND_MS = LONG_BOUND_MS;
const RUN_MS = 25_000;
/** Locks that outlive their disposal stay until their TTL is over: 2 s at most. */
const RESIDUE_BOUND_MS = 5_000;
/** The time limit that the project sets itself. */
const CAUGHT_WITHIN_MS = CONDITION_BOUND_MS;

/** A copy of the code with the bug in it. */
async function mutate(directory: string, { changes }: Pick<Mutant, "changes">): Promise<void> {
  const copies = [...Deno.readDirSync(ROOT)].filter(({ name, isDirectory }) => {
    return isDirectory ? !name.startsWith(".") && !NOT_COPIED.includes(name) : FILES.includes(name);
  }).map(({ name }) => `${ROOT}${name}`);
  const copied = await runCommand(["cp", "-R", ...copies, directory], COMMAND_BOUND_MS);
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

/** Identifies a kind of run: what a mutant has besides its bug. */
function kindOf({ title: _title, changes: _changes, ...kind }: Mutant): string {
  return JSON.stringify(kind);
}

/** Each kind of run without a bug. If one found something, the findings for mutants would prove nothing. */
const CONTROLS = MUTANTS
  .filter((mutant, i) => MUTANTS.findIndex((each) => kindOf(each) === kindOf(mutant)) === i)
  .map((mutant): Mutant => ({ ...mutant, changes: [] }));

for (const mutant of [...CONTROLS, ...MUTANTS]) {
  const isControl = mutant.changes.length === 0;
  const what = isControl
    ? "check() finds nothing in code without a mutant"
    : "check() catches a mutant";
  Deno.test({
    name: `${what}: ${mutant.title}${SOAK ? "" : " [soak only]"}`,
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
          ...mutant.locks !== undefined && { locks: mutant.locks },
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

for (const mutant of [{ ...LEAKING_SET, changes: [] }, LEAKING_SET]) {
  const isControl = mutant.changes.length === 0;
  const what = isControl ? "passes in code without a mutant" : "catches a mutant";
  Deno.test({
    name: `setsStorm() ${what}: ${mutant.title}${SOAK ? "" : " [soak only]"}`,
    ignore: !SOAK,
    sanitizeResources: false, // the copy keeps its block of ports
    async fn() {
      await using server = await startRedis();
      const directory = await Deno.makeTempDir({ prefix: "holdfast-mutant-" });
      try {
        await mutate(directory, mutant);
        const { setsStorm }: { setsStorm: typeof setsStormHere } = await import(
          `${directory}/testing/load/sets_storm.ts`
        );
        const place = { url: server.url, keyPrefix: "", ttlMs: ENDING_TTL_MS };
        const spec = { strategy: "redis", client: "node-redis", ...place } as const;
        const bounds = { stormMs: scaled(5_000), boundMs: scaled(20_000) };
        const storm = setsStorm({ spec, calmSpec: spec, ...bounds });
        if (isControl) await storm;
        else say((await assertRejects(() => storm, Error)).message);
      } finally {
        await Deno.remove(directory, { recursive: true });
      }
    },
  });
}
