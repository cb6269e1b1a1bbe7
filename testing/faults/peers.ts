/**
 * `deno task faults:peers`: causes the same faults to our locks and to those of other packages.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import process from "node:process";
import { findServer } from "../servers/find.ts";
import { startRedis } from "../servers/redis.ts";
import { PEERS } from "./peers/locks.ts";
import { type Fault, FAULTS, type Outcome, play } from "./peers/trials.ts";
import { table } from "./peers/table.ts";

const ROUNDS = 3;

/** Runs all trials, those of all packages at the same time: so all see the same load. */
async function main([rounds = String(ROUNDS)]: string[]): Promise<void> {
  await findServer("redis");
  await using server = await startRedis();
  const outcomes = PEERS.map(() => new Map<Fault, Outcome[]>());
  for (const fault of FAULTS) {
    for (let round = 0; round < Number(rounds); round++) {
      const played = await Promise.all(PEERS.map((peer) => play(peer, fault, server)));
      played.forEach((outcome, index) => {
        const ofPeer = outcomes[index]!;
        ofPeer.set(fault, [...ofPeer.get(fault) ?? [], outcome]);
      });
      console.error(`${fault} ${round + 1}: ${JSON.stringify(played)}`);
    }
  }
  console.log(table(new Map(PEERS.map((peer, index) => [peer, outcomes[index]!]))));
}

if (import.meta.main) await main(process.argv.slice(2));
