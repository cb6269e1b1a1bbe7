import { parseArgs } from "node:util";
import { parseLockUrl } from "../open/lock_url.ts";
import { type CommandContext, EXIT } from "./command.ts";
import type { Finding } from "./doctor/finding.ts";
import { judgeRedis } from "./doctor/redis.ts";
import { tryLock } from "./doctor/trial.ts";
import { judgeZooKeeper } from "./doctor/zookeeper.ts";

export const DOCTOR_HELP = `Usage: holdfast doctor [options]

Uses a lock for a moment, looks at how the service is set up, and says what that
risks and which command cures it. It changes only a lock with a random name.

  --at URL   where the locks are; HOLDFAST_URL by default
  --json     prints one JSON object per finding

Exits with 0 if all is good, with 1 if something is bad, and with 2 if nothing
is bad, but something could not be checked: without the right to look, nothing
is called good.

Example: holdfast doctor --at redis://127.0.0.1`;

const MARKS = { "good": "ok ", "bad": "BAD", "not checked": "?  " } as const;

/** `holdfast doctor`: judges a service before locks depend on it. Resolves with the exit code. */
export async function doctor(args: readonly string[], context: CommandContext): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: { at: { type: "string" }, json: { type: "boolean" } },
  });
  const findings = await judge(context.url(values.at));
  for (const finding of findings) {
    context.print(values.json ? JSON.stringify(finding) : describe(finding));
  }
  if (findings.some(({ state }) => state === "bad")) return EXIT.failed;
  return findings.some(({ state }) => state === "not checked") ? EXIT.notChecked : EXIT.ok;
}

async function judge(url: string): Promise<Finding[]> {
  const { scheme } = parseLockUrl(url);
  if (scheme === "zookeeper") return await judgeZooKeeper(url);
  if (scheme.startsWith("redis")) return await judgeRedis(url);
  return (await tryLock(url)).findings;
}

function describe({ subject, state, text, fix }: Finding): string {
  return `${MARKS[state]}  ${subject}: ${text}` + (fix === undefined ? "" : `\n     → ${fix}`);
}
