/**
 * Installs server programs on Debian and Ubuntu, for root.
 *
 * @module
 */

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

/** Installs the packages and says so; false where this cannot be done. */
export async function installWithApt(
  title: string,
  packages: readonly string[],
): Promise<boolean> {
  if (Deno.build.os !== "linux" || Deno.uid() !== 0 || !hasApt()) return false;
  await say(`${title}: installing ${packages.join(" ")} with apt-get`);
  const { success, stdout, stderr } = await new Deno.Command("sh", {
    args: ["-c", INSTALL_SCRIPT, "install", ...packages],
    env: { DEBIAN_FRONTEND: "noninteractive" },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).output();
  if (success) return true;
  const decoder = new TextDecoder();
  await say(
    `${title}: apt-get failed: ${(decoder.decode(stdout) + decoder.decode(stderr)).slice(-2_000)}`,
  );
  return false;
}

async function say(line: string): Promise<void> {
  await Deno.stderr.write(new TextEncoder().encode(`${line}\n`));
}

function hasApt(): boolean {
  try {
    return Deno.statSync("/usr/bin/apt-get").isFile;
  } catch {
    return false;
  }
}
