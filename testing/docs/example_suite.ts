/**
 * The tests of the examples that `deno test --doc` leaves out: one test for each.
 *
 * @module
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import {
  type ExampleServer,
  isIgnored,
  placeOf,
  publishedExamples,
  serverOf,
} from "../../tools/docs/examples.ts";
import { registerTest } from "../runtime/tests.ts";
import { runExample } from "./examples.ts";

/** A server of a test's own. */
export interface StartedServer extends AsyncDisposable {
  /** Replaces the name of the server in an example. */
  readonly address: string;
}

/** How the tests of a suite get their servers. */
export interface ExampleSuiteOptions {
  /** Starts a server for one example; not given where the examples need none. */
  readonly start?: () => Promise<StartedServer>;
  /** Why the examples cannot run here. */
  readonly skip?: string | undefined;
}

/** Registers a test for each of the examples that need one kind of server. */
export function exampleSuite(server: ExampleServer, { start, skip }: ExampleSuiteOptions): void {
  const examples = publishedExamples().filter(isIgnored);
  for (const example of examples.filter((example) => serverOf(example) === server)) {
    registerTest(
      `${placeOf(example)}: the example runs${skip === undefined ? "" : ` (${skip})`}`,
      async () => {
        await using own = await start?.();
        await using service = await startService();
        const { origin } = service;
        await runExample(example, { origin, ...own && { address: own.address } });
      },
      { isSkipped: skip !== undefined },
    );
  }
}

/** Starts the service that examples send requests to; it answers all with 200. */
async function startService(): Promise<AsyncDisposable & { readonly origin: string }> {
  const service = createServer((_request, response) => void response.end("done"));
  await new Promise<void>((resolve) => void service.listen(0, "127.0.0.1", resolve));
  return {
    origin: `http://127.0.0.1:${(service.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      service.closeAllConnections();
      await new Promise<void>((resolve) => void service.close(() => resolve()));
    },
  };
}
