/** The snippet of `docs/tracing.md` for prom-client, with the real package: the series and their values. */
import { assertEquals, assertRejects } from "@std/assert";
import { register } from "prom-client";
import { FakeLock } from "../../fake/mod.ts";
import { makeTempDirectory } from "../../testing/runtime/temporary_files.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { documentedSnippets } from "../../tools/docs/snippets.ts";

Deno.test("the snippet for prom-client counts outcomes, waits, holds, losses and late renewals", async () => {
  const { code } = documentedSnippets().find(({ code }) => code.includes("prom-client"))!;
  const dir = await makeTempDirectory();
  const file = `${dir}/snippet.ts`;
  const resolved = code.replaceAll(/ from "(@holdfast\/lock|prom-client)"/g, (_, name) => {
    return ` from ${
      JSON.stringify(import.meta.resolve(name === "prom-client" ? name : "../../mod.ts"))
    }`;
  });
  await Deno.writeTextFile(file, `// @ts-nocheck\n${resolved.replace(/console.log.*/, "")}`);
  await import(`file://${file}`); // one request of "order:42"
  await Deno.remove(dir, { recursive: true });
  await using locks = new FakeLock({ disposeTimeoutMs: 0 });
  const other = locks.holdElsewhere("order:7");
  assertEquals(await locks.tryAcquire("order:7"), null);
  await assertRejects(() => locks.acquire("order:7", { waitMs: 10 }));
  await assertRejects(() => locks.acquire("order:7", { signal: AbortSignal.timeout(10) }));
  const waiting = locks.acquire("order:7");
  await waitUntil("it waits", async () => await value("lock_waiting", {}) === 1);
  other.release();
  await waiting;
  assertEquals([await value("lock_waiting", {}), await value("lock_held", {})], [0, 1]);
  locks.loseLease("order:7", "expired");
  const count = (outcome: string) => value("lock_acquire_seconds_count", { outcome });
  const outcomes = ["granted", "busy", "ERR_LOCK_TIMEOUT", "aborted"];
  assertEquals(await Promise.all(outcomes.map(count)), [2, 1, 1, 1]);
  assertEquals(await value("lock_held", {}), 0);
  assertEquals(await value("lock_hold_seconds_count", {}), 2);
  assertEquals(await value("lock_lost_total", { reason: "expired" }), 1);
  assertEquals(await value("lock_renewals_late_total", {}), undefined);
  const names = (await register.getMetricsAsJSON()).map(({ name }) => name);
  assertEquals(names, [
    ...["lock_acquire_seconds", "lock_hold_seconds", "lock_held", "lock_waiting"],
    ...["lock_lost_total", "lock_renewals_late_total"],
  ]);
});

/** The value of a series of "order:{id}" in what a scrape gets. */
async function value(name: string, labels: Record<string, string>): Promise<number | undefined> {
  const all = Object.entries({ lock: "order:{id}", ...labels });
  const line = (await register.metrics()).split("\n").find((line) =>
    line.startsWith(`${name}{`) && all.every(([key, text]) => line.includes(`${key}="${text}"`))
  );
  return line === undefined ? undefined : Number(line.split(" ").at(-1));
}
