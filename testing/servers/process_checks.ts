/**
 * What tests ask about processes.
 *
 * @module
 */

/** True while the process runs; a zombie that nobody has waited for does not. */
export async function isAlive(pid: number): Promise<boolean> {
  if (Deno.build.os === "linux") {
    const stat = await Deno.readTextFile(`/proc/${pid}/stat`).catch(() => "");
    return stat !== "" && !/\) Z /.test(stat);
  }
  const { success } = await new Deno.Command("kill", { args: ["-0", String(pid)] }).output();
  return success;
}

/** True if there is such a file or directory. */
export async function exists(path: string): Promise<boolean> {
  return await Deno.stat(path).then(() => true, () => false);
}

/** A process of its own process group, as one that a terminal has started. */
export interface HoldingProcess extends AsyncDisposable {
  /** What it printed about what it holds. */
  readonly held: { readonly pid: number; readonly directory?: string; readonly port?: number };
  /** Sends a signal to the process alone. */
  kill(signal: Deno.Signal): void;
  /** Sends a signal to its process group, as Ctrl-C does. */
  killGroup(signal: Deno.Signal): void;
}

/** Starts a process that holds something guarded, and waits until it does. */
export async function startHolding(what: "redis" | "sleep"): Promise<HoldingProcess> {
  const script = new URL("./testdata/hold.ts", import.meta.url).href;
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", script, what],
    stdin: "null",
    stdout: "piped",
    detached: true,
  }).spawn();
  const reader = child.stdout.getReader();
  const { value } = await reader.read();
  return {
    held: JSON.parse(new TextDecoder().decode(value)),
    kill: (signal) => child.kill(signal),
    killGroup: (signal) => Deno.kill(-child.pid, signal),
    async [Symbol.asyncDispose]() {
      await reader.cancel();
      await child.status;
    },
  };
}
