import { parseArgs } from "node:util";
import { drawLocks } from "../timeline/mod.ts";
import { type CommandContext, EXIT } from "./command.ts";

export const DRAW_HELP = `Usage: holdfast draw [options] FILE…

Prints an HTML page of the recordings that recordLocks() has written, one or
more for each process: who waited for which lock, behind whom, and who lost it.
Of more than 1,500 calls it shows those around the end of the longest wait.

  --from TIME   only what ends after this time, such as 2026-11-24T17:30Z
  --to TIME     only what begins before this time
  --name NAME   only this lock

Example: holdfast draw checkout.jsonl worker-*.jsonl > incident.html`;

/** `holdfast draw`: the recordings of several processes as one page. Resolves with the exit code. */
export async function draw(args: readonly string[], context: CommandContext): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { from: { type: "string" }, to: { type: "string" }, name: { type: "string" } },
  });
  if (positionals.length === 0) throw new TypeError("name the files to draw");
  const { from, to, name } = values;
  context.print(
    await drawLocks(positionals, { from: dateOf("--from", from), to: dateOf("--to", to), name }),
  );
  return EXIT.ok;
}

function dateOf(option: string, text: string | undefined): Date | undefined {
  if (text === undefined) return undefined;
  const date = new Date(text);
  if (!Number.isNaN(date.getTime())) return date;
  throw new TypeError(`${option} must be a time such as 2026-11-24T17:30Z`);
}
