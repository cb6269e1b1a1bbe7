/**
 * An instance of a function, without the built-ins that are missing in Node 22, the oldest of Lambda's
 * runtimes that are supported.
 *
 * @module
 */
import type { InstanceOptions } from "./lambda_instances.ts";

for (
  const [holder, names] of [
    [Promise, ["try"]],
    [RegExp, ["escape"]],
    [Error, ["isError"]],
    [Map.prototype, ["getOrInsert"]],
    [Uint8Array.prototype, ["toHex", "toBase64"]],
    [globalThis, ["DisposableStack", "SuppressedError", "Temporal"]],
  ] as const
) {
  for (const name of names) Reflect.deleteProperty(holder, name);
}

const { main } = await import("./lambda_instance.ts");
await main(JSON.parse(Deno.args[0]!) as InstanceOptions);
