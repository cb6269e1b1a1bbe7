/**
 * Steps of the suite: an outage of the lock service, and the end of the servers.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { bounded, waitUntil } from "../servers/wait.ts";
import { scaled } from "../time.ts";
import type { Stage, Step } from "./stage.ts";
import { assertProblem } from "./suite_busy.ts";

/** How long in ms a server may take to end: less than any wait or hold, so that a left timer shows. */
const END_BOUND_MS = scaled(20_000);

/** Returns the step with an outage, if the strategy has a service. */
export function outageSteps({ place }: Stage): Step[] {
  return place.redis
    ? [['answers 503 when Redis is down, unless onUnavailable is "proceed"', outage]]
    : [];
}

/** Returns the last step: it ends the servers and checks that nothing is left. */
export function leftSteps(): Step[] {
  return [["leaves no lock, connection or timer behind", nothingIsLeft]];
}

async function outage(stage: Stage): Promise<void> {
  const { a, b, ask } = stage;
  const { redis } = stage.place;
  await redis!.kill();
  const key = "outage";
  const [busy, short, proceed] = await Promise.all(["/busy", "/short", "/proceed"].map((path) => {
    return ask(a, { path, key, id: path });
  }));
  assertProblem(busy!, 503, "unavailable");
  assertProblem(short!, 503, "unavailable");
  for (const id of ["/busy", "/short"]) {
    assertEquals(await a.events(id), [], "the handler never ran");
  }
  assertEquals(proceed!.status, 200);
  assertEquals(JSON.parse(proceed!.text).token, null);
  await redis!.restart();
  for (const server of [a, b]) {
    await waitUntil("it works again, and the lock is free", async () => {
      return (await ask(server, { path: "/busy", key })).status === 200;
    });
  }
}

async function nothingIsLeft({ a, b, place }: Stage): Promise<void> {
  const { redis } = place;
  await waitUntil("no lock is left", async () => (await place.residue()).length === 0);
  if (redis) await connectionsLeft(redis.command, { most: 5, channels: 2 });
  const codes = await bounded("the end of the servers", END_BOUND_MS, async (signal) => {
    const late = new Promise<never>((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
    });
    return await Promise.race([Promise.all([a.finish(), b.finish()]), late]);
  });
  assertEquals(codes, [0, 0]);
  assertEquals(await place.residue(), []);
  if (redis) await connectionsLeft(redis.command, { most: 1, channels: 0 });
}

/** Waits until no more are left: Redis learns only a moment later that a process has ended. */
async function connectionsLeft(
  command: (...args: string[]) => Promise<unknown>,
  { most, channels }: { readonly most: number; readonly channels: number },
): Promise<void> {
  let [clients, listened]: string[][] = [[], []];
  await waitUntil(`${most} connections and ${channels} channels are left at most`, async () => {
    clients = String(await command("CLIENT", "LIST")).trim().split("\n");
    listened = await command("PUBSUB", "CHANNELS") as string[];
    return clients.length <= most && listened.length <= channels;
  }).catch((cause) => {
    throw new Error([...clients!, ...listened!].join("\n"), { cause });
  });
}
