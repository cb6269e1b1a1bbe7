/**
 * The page with a session of each command of `holdfast`, recorded in terminals, on a Redis server of its own.
 *
 * @module
 */
import { chmod, rm, writeFile } from "node:fs/promises";
import process from "node:process";
import { MAIN } from "../../testing/command/holdfast.ts";
import { scriptCommand } from "../../testing/runtime/processes.ts";
import { makeTempDirectory } from "../../testing/runtime/temporary_files.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { openTerminal, type Terminal } from "./terminal.ts";

/** What the terminals find in their directory. */
const PROGRAMS = {
  "holdfast": `exec ${scriptCommand(MAIN).join(" ")} "$@"`,
  "report.sh": 'echo "$HOLDFAST_NAME runs with token $HOLDFAST_TOKEN"; exec sleep 1000',
};

const PAGE = `# A session of each command

\`deno task sessions\` records them in terminals, and writes this page; a test compares all but the
numbers. What the commands promise: [the command \`holdfast\`](open.md#the-command-holdfast).

Both terminals have the same \`HOLDFAST_URL\`, which names a Redis with the settings that it has by
default. \`holdfast\` is short for \`npx -p @holdfast/lock holdfast\`. \`report.sh\` prints two variables
of its environment, and works for long.
`;

/** Records the sessions. Returns the page. */
export async function recordSessions(): Promise<string> {
  await using resources = new AsyncDisposableStack();
  const server = resources.use(await startRedis());
  const dir = await makeTempDirectory();
  resources.defer(() => rm(dir, { recursive: true }));
  for (const [name, script] of Object.entries(PROGRAMS)) {
    await writeFile(`${dir}/${name}`, `#!/bin/sh\n${script}\n`);
    await chmod(`${dir}/${name}`, 0o755);
  }
  const env = { HOLDFAST_URL: server.url, PATH: `${dir}:${process.env.PATH}` };
  const first = resources.use(await openTerminal(dir, env));
  const second = resources.use(await openTerminal(dir, env));
  return [PAGE, ...await sessions(first, second)].join("\n");
}

async function sessions(first: Terminal, second: Terminal): Promise<string[]> {
  const run = (command: string) => typed(second, command);
  await first.begin("holdfast run --label web-1 nightly -- ./report.sh", "with token");
  const busy = [
    await run("holdfast run --no-wait nightly -- ./report.sh"),
    await run("echo $?"),
  ];
  const shown = await run("holdfast show nightly");
  const listed = await run("holdfast list");
  await second.begin("holdfast release --steal nightly", "[y/N] ");
  await second.type("y");
  const taken = await second.end();
  const lost = [await first.end(), await typed(first, "echo $?")];
  return [
    section(
      "run",
      "In the first terminal it runs until somebody takes its lock. One that is found gone has expired:",
      ...lost,
    ),
    paragraph("Meanwhile, in the second terminal, 75 says that the lock is busy:", ...busy),
    section("show", "", shown),
    section("list", "", listed),
    section("release", "It asks first. This is what ends the command above:", taken),
    section("doctor", "", await run("holdfast doctor")),
  ];
}

async function typed(terminal: Terminal, command: string): Promise<string> {
  await terminal.begin(command, "\n");
  return await terminal.end();
}

function section(command: string, text: string, ...screens: string[]): string {
  return `## ${command}\n\n${paragraph(text, ...screens)}`;
}

/** What a terminal showed: each command behind its prompt, and its output. */
function paragraph(text: string, ...screens: string[]): string {
  const shown = screens.map((screen) => `$ ${screen.trimEnd()}`).join("\n");
  return `${text && `${text}\n\n`}\`\`\`text\n${shown}\n\`\`\`\n`;
}

/** The page without what differs from one recording to the next. */
export function withoutNumbers(page: string): string {
  return page.replaceAll(/-?\d+(\.\d+)*/g, "#").replace(/version: \w+/, "version:");
}
