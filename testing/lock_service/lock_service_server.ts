/**
 * A process with a lock service: prints its URL, serves until its input ends, then closes gracefully.
 *
 * @module
 */
import { openService, type ProcessOptions } from "./lock_service.ts";

async function main(options: ProcessOptions): Promise<void> {
  await using service = await openService(options);
  Deno.stdout.writeSync(new TextEncoder().encode(`${JSON.stringify({ url: service.url })}\n`));
  for await (const _ of Deno.stdin.readable);
}

if (import.meta.main) {
  await main(JSON.parse(Deno.args[0]!));
  Deno.exit(0); // sockets of clients could keep the process alive
}
