import { assertEquals, assertMatch } from "@std/assert";
import { scriptCommand } from "../../testing/runtime/processes.ts";

const SCRIPT = new URL("../../testing/faults/main.ts", import.meta.url);
const PEERS_SCRIPT = new URL("../../testing/faults/peers.ts", import.meta.url);
/** Wrong arguments, each with the beginning of what is said about it. */
const WRONG: Record<string, string> = {
  "--strategy file --faults unknown": 'Unknown fault "unknown": choose from worker-kill, ',
  "--strategy paper": 'Unknown strategy "paper": choose one of redis, zookeeper, file',
  "--seed abc": 'Cannot use --seed "abc"',
  "--seed 1.5": 'Cannot use --seed "1.5"',
  "--minutes 0": 'Cannot use --minutes "0"',
  "--minutes long": 'Cannot use --minutes "long"',
  "--locks -1": "Option '--locks' argument is ambiguous.",
  "--habits sleeps=5": 'Cannot use --habits "sleeps=5"',
  "--habits steals=often": 'Cannot use --habits "steals=often"',
  "--beside docs": 'Cannot use --beside "docs": it has no testing/faults/recording_worker.ts',
  "--speed 5": "Unknown option '--speed'",
};

/** Runs a script with wrong arguments, and checks what it says. */
async function refuses(script: URL, args: string, said: string): Promise<void> {
  const [command, ...start] = scriptCommand(script);
  const child = new Deno.Command(command!, { args: [...start, ...args.split(" ")] });
  const { code, stderr } = await child.output();
  const text = new TextDecoder().decode(stderr);
  assertMatch(text, /^[^\n]+ \(--help lists the options\)\n$/);
  assertEquals(text.slice(0, said.length), said);
  assertEquals(code, 2);
}

for (const [args, said] of Object.entries(WRONG)) {
  Deno.test(`deno task faults ${args}: says in one line what is wrong, and ends with 2`, () =>
    refuses(SCRIPT, args, said));
}

for (const args of ["--rounds 0", "--rounds some"]) {
  Deno.test(`deno task faults:peers ${args}: says in one line what is wrong, and ends with 2`, () =>
    refuses(PEERS_SCRIPT, args, `Cannot use ${args.replace(" ", ' "')}"`));
}
