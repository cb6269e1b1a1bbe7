/**
 * Faults of the network between a worker and its servers.
 *
 * @module
 */
// Paces a workload: each fault of a connection lasts for a random time.
import { connectTcp } from "../runtime/sockets.ts";
import { connectResp } from "../servers/resp.ts";
import { writeAll } from "../servers/raw_sockets.ts";
import type { ChunkHook, Direction, FaultProxy } from "../servers/proxy.ts";
import { pause } from "../servers/wait.ts";
import type { Fault, FaultTable, Stage } from "./place.ts";
import { anyWorker } from "./worker_faults.ts";

/** A fault of the links of one worker. */
function ofLink(
  run: (links: readonly FaultProxy[], stage: Stage) => Promise<void>,
  more: Pick<Fault, "parks"> = {},
): Fault {
  return {
    ...more,
    async run(stage) {
      const worker = anyWorker(stage);
      await run(stage.place.linksOf(worker), stage);
      return `link of ${stage.fleet.nameOf(worker)}`;
    },
  };
}

function blackHole(direction: "both" | Direction): Fault {
  return ofLink(async (links, { place, random }) => {
    links.forEach((link) => link.blackHole(direction));
    await pause(place.ttlMs * (0.2 + random() * 1.6));
    links.forEach((link) => link.heal());
  });
}

/** Sets a hook for some ms. `cuts`: closes the connections afterwards, as they have lost bytes. */
async function hooked(
  links: readonly FaultProxy[],
  hook: "onRequest" | "onReply",
  judge: ChunkHook,
  ms: number,
  cuts: boolean,
): Promise<void> {
  for (const link of links) link[hook] = judge;
  await pause(ms);
  for (const link of links) {
    link[hook] = undefined;
    if (cuts) link.cutAll();
  }
}

/** A hook that affects only the first chunk. */
function once(verdict: (chunk: Uint8Array) => ReturnType<ChunkHook>): ChunkHook {
  let isDone = false;
  return (chunk) => {
    if (isDone) return "pass";
    isDone = true;
    return verdict(chunk);
  };
}

const half = (chunk: Uint8Array) => ({ cutAfterBytes: Math.floor(chunk.length / 2) });

/** Faults of any worker's connections. */
export const LINK_FAULTS: FaultTable = {
  "delay": ofLink((links, { random }) => {
    const judge = () => ({ delayMs: random() * 40 });
    return hooked(links, random() < 0.5 ? "onRequest" : "onReply", judge, 500, false);
  }, { parks: true }),
  "late-command": ofLink((links, { place, random }) => {
    const delayMs = place.ttlMs * (0.5 + random());
    return hooked(links, "onRequest", once(() => ({ delayMs })), delayMs, false);
  }),
  "late-reply": ofLink((links, { place, random }) => {
    const delayMs = place.ttlMs * (0.5 + random());
    return hooked(links, "onReply", once(() => ({ delayMs })), delayMs, false);
  }),
  "dropped-reply": ofLink((links, { place, random }) =>
    hooked(links, "onReply", once(() => "drop"), place.ttlMs * random(), true)
  ),
  "cut-reply": ofLink((links) => hooked(links, "onReply", once(() => "cut"), 50, false)),
  "cut-mid-request": ofLink((links) => hooked(links, "onRequest", once(half), 50, false)),
  "cut-mid-reply": ofLink((links) => hooked(links, "onReply", once(half), 50, false)),
  "trickle": ofLink((links, { place, random }) => {
    const judge = () => ({ byteEveryMs: place.ttlMs / 20 });
    return hooked(links, "onReply", judge, place.ttlMs * (0.5 + random()), true);
  }),
  "dropping-server": ofLink((links, { place, random }) => {
    links.forEach((link) => link.cutAll());
    const judge: ChunkHook = (chunk) => ({ cutAfterBytes: chunk.length });
    return hooked(links, "onReply", judge, place.ttlMs * (0.5 + random()), false);
  }),
  "black-hole": blackHole("both"),
  "black-hole-to-server": blackHole("to-server"),
  "black-hole-to-client": blackHole("to-client"),
};

/** Records commands that a worker sends to Redis, and sends them again later on another connection. */
export function replayedCommands(url: () => string): Fault {
  return ofLink(async (links, { place, random }) => {
    const copies: Uint8Array[] = [];
    await hooked(
      links,
      "onRequest",
      (chunk) => {
        if (copies.length < 50 && isScripts(chunk)) copies.push(chunk.slice());
        return "pass";
      },
      100 + random() * 200,
      false,
    );
    await pause(random() * place.ttlMs * 1.5);
    await send(url(), copies);
  }, { parks: false });
}

/** Whether the chunk begins with a command and contains only script calls. */
function isScripts(chunk: Uint8Array): boolean {
  const text = new TextDecoder().decode(chunk);
  return text.startsWith("*") && text.endsWith("\r\n") && text.includes("EVALSHA") &&
    !/SUBSCRIBE/i.test(text);
}

async function send(url: string, copies: readonly Uint8Array[]): Promise<void> {
  const { hostname, port } = new URL(url);
  using _probe = await connectResp(url).catch(() => undefined);
  if (_probe === undefined) return; // The server is down at the moment.
  for (const copy of copies) {
    using socket = await connectTcp({ hostname, port: Number(port) });
    await writeAll(socket, copy).catch(() => {});
    await socket.read(new Uint8Array(65_536)).catch(() => {}); // The reply shows that it was executed.
  }
}
