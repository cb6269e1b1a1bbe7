import { hostname } from "node:os";
import process from "node:process";
import { LeaseLostError, LockSetupError, LockUnavailableError } from "../core/contract/errors.ts";
import { MAX_LABEL_LENGTH } from "../core/contract/options.ts";
import { parseLockUrl } from "../open/lock_url.ts";
import { openLock } from "../open/mod.ts";
import { type CommandContext, EXIT } from "./command.ts";
import { doctor, DOCTOR_HELP } from "./doctor.ts";
import { draw, DRAW_HELP } from "./draw.ts";
import { list, LIST_HELP } from "./list.ts";
import { release, RELEASE_HELP } from "./release.ts";
import { run, RUN_HELP } from "./run.ts";
import { show, SHOW_HELP } from "./show.ts";

const HELP = `Usage: holdfast COMMAND [options]

  run NAME -- COMMAND   runs a command while it holds the lock NAME
  show NAME             prints who holds a lock, and who waits for it
  list [PREFIX]         prints the locks, and who holds each
  release --steal NAME  takes a lock from its holder, and frees it
  doctor                judges how the service is set up
  draw FILE…            makes a page of recordings: who waited, and who held

The locks are where --at or HOLDFAST_URL says: redis://…, zookeeper://…,
file:///dir.
holdfast COMMAND --help explains the options of a command.

Example: holdfast run --at redis://127.0.0.1 --no-wait nightly -- ./report.sh`;

const COMMANDS = {
  run: { main: run, help: RUN_HELP },
  show: { main: show, help: SHOW_HELP },
  list: { main: list, help: LIST_HELP },
  release: { main: release, help: RELEASE_HELP },
  doctor: { main: doctor, help: DOCTOR_HELP },
  draw: { main: draw, help: DRAW_HELP },
} as const;

/**
 * Runs the command that the arguments name, and prints its errors. Resolves with the exit code.
 *
 * @param terminal What the process gives to it; `url` is where the locks are, without `--at`.
 */
export async function runCommandLine(
  [name = "--help", ...args]: readonly string[],
  terminal: Pick<CommandContext, "say" | "print"> & { readonly url: string | undefined },
): Promise<number> {
  const context = contextIn(terminal);
  if (name === "--help" || name === "-h") {
    context.print(HELP);
    return EXIT.ok;
  }
  try {
    if (!Object.hasOwn(COMMANDS, name)) {
      throw new TypeError(`there is no command ${hidden(name, "like that")}`);
    }
    const command = COMMANDS[name as keyof typeof COMMANDS];
    const own = args.slice(0, args.indexOf("--") === -1 ? args.length : args.indexOf("--"));
    if (own.includes("--help")) {
      context.print(command.help);
      return EXIT.ok;
    }
    return await command.main(args, context);
  } catch (error) {
    return report(error, Object.hasOwn(COMMANDS, name) ? `${name} ` : "", context);
  }
}

/** A text, or another one if it may hold a URL, in which there may be a password. */
function hidden(text: string, instead: string): string {
  return text.includes("://") ? instead : text;
}

/** Prints an error. Returns the exit code for it. */
function report(error: unknown, command: string, { say }: CommandContext): number {
  const { code, message, name } = error as {
    readonly code?: unknown;
    readonly message?: string;
    readonly name?: string;
  };
  const isParsing = `${code}`.startsWith("ERR_PARSE_ARGS");
  if (isParsing || error instanceof TypeError || error instanceof RangeError) {
    const what = message ?? "";
    const text = isParsing ? hidden(what, "an argument is not understood: is --at missing?") : what;
    say(`${text}\nTry: holdfast ${command}--help`);
    return EXIT.usage;
  }
  say(message ?? String(error));
  if (error instanceof LockUnavailableError) return EXIT.unavailable;
  if (error instanceof LeaseLostError) return EXIT.lost;
  const isRefused = error instanceof LockSetupError || name === "NotSupportedError";
  return isRefused ? EXIT.setup : EXIT.failed;
}

function contextIn(
  { url: ownUrl, say, print }: Parameters<typeof runCommandLine>[1],
): CommandContext {
  const context: CommandContext = {
    url(at) {
      const url = at ?? ownUrl;
      if (url === undefined || url === "") {
        throw new TypeError(
          "say where the locks are: --at URL, or HOLDFAST_URL in the environment",
        );
      }
      if (/^memory:/i.test(url)) throw new TypeError("no other process sees memory: take file:");
      return url;
    },
    async withLocks(url, work, label) {
      const onWarning = (message: string) => context.say(message);
      const own = label ?? `${hostname()}-${process.pid}`.slice(-MAX_LABEL_LENGTH);
      const isLabelled = label === undefined && parseLockUrl(url).query.has("label");
      const locks = await openLock(url, { onWarning, ...isLabelled ? {} : { label: own } });
      try {
        return await work(locks);
      } finally {
        await locks[Symbol.asyncDispose]();
      }
    },
    say: (text) => say(`holdfast: ${text}`),
    print,
  };
  return context;
}
