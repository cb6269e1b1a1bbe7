/**
 * The gate's step "awaited timers": `deno run -A tools/awaited_timers/main.ts`. Fails if a place in
 * `tests/` or `testing/` waits for a time without saying why, or if too many do. With paths, such as
 * `tests/redis`, it lists what waits below them. The rules are in `find.ts`.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { scanWith } from "../syntax/scan.ts";
import { type AwaitedTimer, LIMIT } from "./find.ts";

const SCAN = "tools/awaited_timers/scan.ts";
const FOLDERS = ["tests", "testing"];

/** The result of a search. */
export interface Judgement {
  readonly isGood: boolean;
  /** The last line has the count. */
  readonly lines: readonly string[];
}

/**
 * Judges what was found.
 *
 * @param paths Lists all below these paths; without any, those that have no reason.
 */
export function judge(
  found: readonly AwaitedTimer[],
  paths: readonly string[] = [],
): Judgement {
  const isListed = ({ path, hasReason }: AwaitedTimer) =>
    paths.length === 0 ? !hasReason : paths.some((prefix) => path.startsWith(prefix));
  const listed = found.filter(isListed);
  const isReasoned = found.every(({ hasReason }) => hasReason);
  const lines = listed.map(({ path, line, text, hasReason, count }) =>
    `${path}:${line}:${times(count)} ${text}${hasReason ? " (has a reason)" : ""}`
  );
  if (paths.length > 0) lines.push(`${sum(listed)} below ${paths.join(" ")}`);
  if (!isReasoned) lines.push('Wait for a condition, or write "// No condition: <why>" above');
  lines.push(`${sum(found)} awaited timers, at most ${LIMIT}`);
  return { isGood: isReasoned && sum(found) <= LIMIT, lines };
}

function sum(timers: readonly AwaitedTimer[]): number {
  return timers.reduce((total, { count }) => total + count, 0);
}

function times(count: number): string {
  return count === 1 ? "" : ` ${count} times`;
}

if (import.meta.main) {
  const { isGood, lines } = judge(await scanWith<AwaitedTimer[]>(SCAN, FOLDERS), Deno.args);
  console.log(lines.join("\n"));
  Deno.exit(isGood ? 0 : 1);
}
