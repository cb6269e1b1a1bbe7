/**
 * Installs server programs on Debian and Ubuntu, for root, unless the user refuses.
 *
 * @module
 */
import { statSync } from "node:fs";
import process from "node:process";
import { runCommand } from "./command.ts";
import { pause } from "./wait.ts";

/** Set to anything but nothing, this environment variable refuses to install programs. */
export const NO_INSTALL_VARIABLE = "HOLDFAST_NO_INSTALL";

const WARNING_MS = 5_000;
const INSTALL_BOUND_MS = 1_800_000;

/**
 * Keeps the packages from starting services, by the file that the system asks, unless there is one
 * already. Traps see to the file's removal, but for SIGKILL.
 */
const INSTALL_SCRIPT = `
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  trap 'exit 130' HUP INT TERM
  printf '#!/bin/sh\\nexit 101\\n' >"$policy"
  chmod 755 "$policy"
fi
apt-get update -qq
apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=120 "$@"
`;

/** The circumstances that decide whether to install programs. */
export interface InstallSituation {
  /** By `--no-install` or {@linkcode NO_INSTALL_VARIABLE}. */
  readonly isRefused: boolean;
  /** Whether this is root on a Linux with `apt-get`. */
  readonly canInstall: boolean;
  /** Whether a person can read what is printed, and press Ctrl-C. */
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

/** Refuses to install programs from now on, in this process and in those that it starts. */
export function refuseInstall(): void {
  process.env[NO_INSTALL_VARIABLE] = "1";
}

/** True if the user has refused to install programs. */
export function isInstallRefused(): boolean {
  return Boolean(process.env[NO_INSTALL_VARIABLE]);
}

/**
 * Installs the packages and says so. On a terminal it first says what it will install, and waits 5
 * seconds: Ctrl-C then ends the whole command.
 *
 * @returns False if the user has refused, or if this cannot be done here.
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
