/** `@holdfast/lock/otel` with the SDK of OpenTelemetry and a receiver on loopback, on each runtime. */
import { assert, assertEquals } from "@std/assert";
import { installSkip, installTogether } from "../../testing/npm/install.ts";
import { type ReceivedSpan, startOtlpReceiver } from "../../testing/npm/otlp_receiver.ts";
import { linkedProject } from "../../testing/npm/project.ts";
import { BUN, NODE_22, NODE_26, programOf, runtimeSkip } from "../../testing/npm/runtimes.ts";
import { startRedis } from "../../testing/servers/redis.ts";

const PACKAGES = {
  "@opentelemetry/api": "@opentelemetry/api@1.9.1",
  "@opentelemetry/sdk-node": "@opentelemetry/sdk-node@0.223.0",
  "ioredis": "ioredis@6.0.0",
};
const SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));
const packagesSkip = await installSkip(Object.values(PACKAGES));

/** One runtime by default; the soak runs all. */
const RUNTIMES = [
  {
    name: "Deno",
    skip: packagesSkip,
    command: () => Promise.resolve([Deno.execPath(), "run", "-A", "-q"]),
    env: { OTEL_DENO: "true" },
  },
  ...await Promise.all([NODE_22, NODE_26, BUN].map(async (runtime) => ({
    name: runtime.name,
    skip: packagesSkip ?? (SOAK || runtime === NODE_22 ? await runtimeSkip(runtime) : "soak only"),
    command: async () => [await programOf(runtime)],
    env: {},
  }))),
];

for (const { name, skip, command, env } of RUNTIMES) {
  Deno.test({
    name: `one trace shows why a request waited, on ${name}` +
      (skip === undefined ? "" : ` [skipped: ${skip}]`),
    ignore: skip !== undefined,
    async fn() {
      await using redis = await startRedis();
      await using receiver = await startOtlpReceiver();
      const installed = await installTogether(PACKAGES);
      await using project = await linkedProject(Object.fromEntries(installed));
      await project.write("package.json", JSON.stringify({ type: "module", private: true }));
      const script = await project.copy("otel_main.mjs");
      const { success, output } = await project.run([...await command(), script, redis.url], {
        ...env,
        OTEL_SERVICE_NAME: "checkout",
        OTEL_TRACES_EXPORTER: "otlp",
        OTEL_METRICS_EXPORTER: "otlp",
        OTEL_LOGS_EXPORTER: "none",
        OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
        OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
      });
      assert(success, output);
      checkTrace(receiver.spans);
      const value = (metric: string, ...with_: readonly string[]) =>
        receiver.points.get(metric)!
          .filter(({ attributes }) =>
            with_.every((each) => Object.values(attributes).includes(each))
          )
          .reduce((sum, point) => sum + point.value, 0);
      assertEquals(value("holdfast.acquires", "granted"), 4);
      assertEquals(value("holdfast.acquires", "busy"), 1);
      assertEquals(value("holdfast.losses", "max-hold", "order:{id}"), 1);
      assertEquals([value("holdfast.held"), value("holdfast.waiting")], [0, 0]);
      assertEquals(value("holdfast.acquire.duration", "order:{id}"), 4);
      assertEquals(value("holdfast.hold.duration"), 4);
    },
  });
}

function checkTrace(spans: readonly ReceivedSpan[]): void {
  const [request] = spans.filter(({ name }) => name === "request");
  assert(request !== undefined, JSON.stringify(spans.map(({ name }) => name)));
  const below = (parent: ReceivedSpan, name: string) =>
    spans.filter((span) => span.parentSpanId === parent.spanId && span.name === name);
  const [acquire, ...moreCalls] = below(request, "holdfast.acquire");
  const [hold, ...moreHolds] = below(request, "holdfast.hold");
  assertEquals([moreCalls, moreHolds], [[], []]);
  assertEquals([acquire!.traceId, hold!.traceId], [request.traceId, request.traceId]);
  const { attributes } = acquire!;
  assertEquals(attributes["holdfast.lock.name"], "order:{id}");
  assertEquals(attributes["holdfast.holder.label"], "nightly-export");
  assertEquals(attributes["holdfast.outcome"], "granted");
  assertEquals(acquire!.events!.map(({ name }) => name), ["waits", "blocked"]);
  assertEquals(hold!.attributes["holdfast.loss.reason"], "max-hold");
  assertEquals(hold!.attributes["holdfast.label"], "checkout");
  assertEquals(hold!.status?.code, 2);
  // The first ask of the call, and none of the later ones; nor the query, the renewals or the clean-up.
  const commands = below(acquire!, "redis").map((span) => span.attributes["db.operation.name"]);
  assertEquals(commands, ["EVALSHA"]);
  assertEquals(below(request, "redis").length, 1); // the script releases the holder's lease
}
