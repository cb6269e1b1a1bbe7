/**
 * Installs server programs with apt-get on Debian and Ubuntu, as root, unless the user refuses.
 *
 * @module
 */
import { statSync } from "node:fs";
import process from "node:process";
import { runCommand } from "./command.ts";
import { pause } from "./wait.ts";

/** If this environment variable is set and not empty, nothing is installed. */
export const NO_INSTALL_VARIABLE = "HOLDFAST_NO_INSTALL";

const WARNING_MS = 5_000;
const INSTALL_BOUND_MS = 1_800_000;

/**
 * Prevents the packages from starting services: `policy-rc.d` refuses it, unless that file exists
 * already. Traps remove the file, except after SIGKILL. Runs of several clones do all this one after the
 * other; for other users of apt it waits.
 */
const INSTALL_SCRIPT = `
exec 9>/var/lib/apt/holdfast.lock
flock 9
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  trap 'exit 130' HUP INT TERM
  printf '#!/bin/sh\\nexit 101\\n' >"$policy"
  chmod 755 "$policy"
fi
tries=0
while ! output=$(apt-get update -qq 2>&1); do
  case $output in
    *"Could not get lock"*) ;;
    *) printf '%s\\n' "$output"; break ;;
  esac
  tries=$((tries + 1))
  [ $tries -lt 60 ] || break
  sleep 2
done
apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=120 "$@"
`;

/** The facts that decide whether programs are installed. */
export interface InstallSituation {
  /** Whether the user refused, with `--no-install` or {@linkcode NO_INSTALL_VARIABLE}. */
  readonly isRefused: boolean;
  /** Whether this process is root on a Linux with `apt-get`. */
  readonly canInstall: boolean;
  /** Whether a person can read the output and press Ctrl-C. */
  readonly isTerminal: boolean;
}

/** The decision about missing programs. */
export type InstallDecision = "install" | "warn and install" | "refused" | "impossible";

/** Decides whether to install programs. */
export function decideInstall(situation: InstallSituation): InstallDecision {
  if (situation.isRefused) return "refused";
  if (!situation.canInstall) return "impossible";
  return situation.isTerminal ? "warn and install" : "install";
}

/** Forbids installing programs from now on, in this process and its children. */
export function refuseInstall(): void {
  process.env[NO_INSTALL_VARIABLE] = "1";
}

/** True if the user refused to have programs installed. */
export function isInstallRefused(): boolean {
  return Boolean(process.env[NO_INSTALL_VARIABLE]);
}

/**
 * Installs packages and prints that it does. On a terminal it first prints what it will install and
 * waits 5 seconds, in which Ctrl-C ends the whole command.
 *
 * @returns False if the user refused, if this machine cannot install packages, or if apt-get failed.
 */
export async function installWithApt(
  title: string,
  packages: readonly string[],
): Promise<boolean> {
  const decision = decideInstall({
    isRefused: isInstallRefused(),
    canInstall: isRootWithApt(),
    isTerminal: process.stderr.isTTY === true,
  });
  if (decision === "refused" || decision === "impossible") return false;
  if (decision === "warn and install") {
    say(
      `${title}: will install ${packages.join(" ")} with apt-get in ${
        WARNING_MS / 1_000
      } seconds; ` +
        "press Ctrl-C to refuse, or use --no-install",
    );
    // No condition: the time in which a person may press Ctrl-C.
    await pause(WARNING_MS);
  }
  say(`${title}: installing ${packages.join(" ")} with apt-get`);
  const command = ["sh", "-c", INSTALL_SCRIPT, "install", ...packages];
  const env = { DEBIAN_FRONTEND: "noninteractive" };
  const { success, output } = await runCommand(command, INSTALL_BOUND_MS, { env });
  if (!success) say(`${title}: apt-get failed: ${output.slice(-2_000)}`);
  return success;
}

function say(line: string): void {
  process.stderr.write(`${line}\n`);
}

function isRootWithApt(): boolean {
  if (process.platform !== "linux" || process.getuid?.() !== 0) return false;
  return statSync("/usr/bin/apt-get", { throwIfNoEntry: false })?.isFile() === true;
}
