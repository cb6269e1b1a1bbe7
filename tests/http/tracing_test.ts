/** What the web parts publish on the channels: a test for each row of their table in `docs/tracing.md`. */
import { assertEquals } from "@std/assert";
import { FakeLock } from "../../fake/mod.ts";
import { assertPublished, documentedRows } from "../../testing/core/tracing_tables.ts";
import { traceEvents } from "../../testing/core/traced_events.ts";
import { type FrameworkName, FRAMEWORKS } from "../../testing/http/frameworks.ts";
import { Gates, type HandlerEvent } from "../../testing/http/handler.ts";
import { waitUntil } from "../../testing/servers/wait.ts";

const ROWS = documentedRows("web part");

const PARTS: Readonly<Record<string, FrameworkName>> = {
  "`fetchLock()`": "fetch",
  "`expressLock()`": "express",
  "`koaLock()`": "koa",
  "`fastifyLock`": "fastify",
  "`honoLock()`": "hono",
  "`lambdaLock()`": "lambda",
  "`@Lock()` of NestJS": "nestjs",
  "`@Lock()` of NestJS on Fastify": "nestjs-fastify",
};

/** The requests of the columns: each returns when its response has been read, with its status. */
const REQUESTS: readonly ((site: Site) => Promise<number>)[] = [
  ({ get }) => get("/busy?key=n"),
  async ({ get, locks }) => {
    const holder = locks.holdElsewhere("n");
    const status = await get("/busy?key=n");
    holder.release();
    return status;
  },
  async ({ get, locks, reports }) => {
    const asked = get("/busy?key=n&id=lost&mode=heed");
    const entered = ({ id, what }: Report) => id === "lost" && what === "entered";
    await waitUntil("the handler runs", () => reports.some(entered));
    locks.loseLease("n", "expired");
    return await asked;
  },
];

type Report = Omit<HandlerEvent, "atUs">;

/** A server whose routes are under a lock. */
interface Site {
  readonly locks: FakeLock;
  readonly reports: readonly Report[];
  get(path: string): Promise<number>;
}

Deno.test("docs/tracing.md has a row for each web part", () => {
  assertEquals([...ROWS.keys()], Object.keys(PARTS));
});

for (const [part, framework] of Object.entries(PARTS)) {
  Deno.test(`the channels tell once of each request under ${part}`, async () => {
    const locks = new FakeLock();
    const reports: Report[] = [];
    using events = traceEvents();
    const ends: number[] = [0];
    const statuses: number[] = [];
    {
      await using server = await FRAMEWORKS[framework]({
        ...{ protocol: "http/1.1", lock: locks, gates: new Gates() },
        report: (event) => void reports.push(event),
      });
      using client = Deno.createHttpClient({ http2: false, poolMaxIdlePerHost: 0 });
      const get = async (path: string) => {
        const response = await fetch(`${server.url}${path}`, { client });
        await response.text();
        return response.status;
      };
      for (const [column, request] of REQUESTS.entries()) {
        statuses.push(await request({ locks, reports, get }));
        const isFree = async () => (await locks.query("n")).holderCount === 0;
        await waitUntil("the lock is free", isFree);
        const count = ends[column]! + ROWS.get(part)![column]!.split(", ").length;
        await waitUntil("all is told", () => events.order().length >= count);
        ends.push(events.order().length);
      }
    }
    await locks[Symbol.asyncDispose]();
    assertEquals(statuses, [200, 409, 503]);
    for (const [column, cell] of ROWS.get(part)!.entries()) {
      assertPublished(events.order().slice(ends[column]!, ends[column + 1]), cell);
    }
    assertEquals(events.order().length, ends.at(-1), "nothing is told later");
  });
}
