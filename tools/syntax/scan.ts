/**
 * Runs a script that needs Deno's own parser.
 *
 * @module
 */
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/**
 * Runs a script under `deno test`, in the root of the project.
 *
 * @param script Its path. It writes its result as JSON into the file that its last argument names.
 * @param args Its other arguments.
 */
export async function scanWith<T>(script: string, args: readonly string[]): Promise<T> {
  const file = Deno.makeTempFileSync();
  try {
    const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["test", "-A", "-q", "--no-check", "--no-config", script, "--", ...args, file],
      cwd: ROOT,
    }).output();
    if (!success) {
      const text = new TextDecoder();
      throw new Error(`Cannot run ${script}:\n${text.decode(stdout)}${text.decode(stderr)}`);
    }
    return JSON.parse(Deno.readTextFileSync(file));
  } finally {
    Deno.removeSync(file);
  }
}
