/**
 * `deno task faults:peers`: causes the same faults to our locks and to those of other packages.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import process from "node:process";
import { parseArgs } from "node:util";
import { findServer } from "../servers/find.ts";
import { startRedis } from "../servers/redis.ts";
import { PEERS } from "./peers/locks.ts";
import { type Fault, FAULTS, type Outcome, play as playTrial } from "./peers/trials.ts";
import { table } from "./peers/table.ts";

const USAGE = `Usage: deno task faults:peers [--rounds N]

Causes three faults to our locks and to those of other packages on one Redis server, all packages at
the same time, so that they see the same load. Prints each outcome, then a table.

  --rounds N  how often each fault is caused; 3 by default, which takes about a minute`;

/**
 * Reads the command line; undefined for `--help`.
 *
 * @throws {Error} If an argument is wrong.
 */
function readRounds(args: string[]): number | undefined {
  const { values } = parseArgs({
    args,
    options: {
      rounds: { type: "string", default: "3" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) return undefined;
  const rounds = Number(values.rounds);
  if (Number.isInteger(rounds) && rounds > 0) return rounds;
  throw new Error(`Cannot use --rounds "${values.rounds}": give a whole number above 0`);
}

async function play(rounds: number): Promise<void> {
  await findServer("redis");
  await using server = await startRedis();
  const outcomes = PEERS.map(() => new Map<Fault, Outcome[]>());
  for (const fault of FAULTS) {
    for (let round = 0; round < rounds; round++) {
      const played = await Promise.all(PEERS.map((peer) => playTrial(peer, fault, server)));
      played.forEach((outcome, index) => {
        const ofPeer = outcomes[index]!;
        ofPeer.set(fault, [...ofPeer.get(fault) ?? [], outcome]);
      });
      console.error(`${fault} ${round + 1} of ${rounds}: ${JSON.stringify(played)}`);
    }
  }
  console.log(table(new Map(PEERS.map((peer, index) => [peer, outcomes[index]!]))));
}

/** Returns the exit code. */
async function main(args: string[]): Promise<number> {
  let rounds: number | undefined;
  try {
    rounds = readRounds(args);
  } catch (error) {
    console.error(`${(error as Error).message} (--help lists the options)`);
    return 2;
  }
  if (rounds === undefined) console.log(USAGE);
  else await play(rounds);
  return 0;
}

if (import.meta.main) process.exit(await main(process.argv.slice(2)));
