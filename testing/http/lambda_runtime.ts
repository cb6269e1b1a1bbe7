/**
 * A small AWS Lambda: a front that turns requests into API Gateway events, the Runtime API, and the loop
 * of an instance, which handles one invocation at a time.
 *
 * @module
 * @see {@link https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html}
 */

/** An event of API Gateway's HTTP API (2.0), with the parts that the tests need. */
export interface ApiGatewayEvent {
  readonly version: "2.0";
  readonly rawPath: string;
  readonly rawQueryString: string;
  readonly requestContext: { readonly http: { readonly method: string } };
}

/** The second argument of a handler. */
export interface RuntimeContext {
  readonly awsRequestId: string;
  getRemainingTimeInMillis(): number;
}

/** A handler, as a function exports it. */
export type RuntimeHandler<Event> = (event: Event, context: RuntimeContext) => Promise<unknown>;

interface Invocation {
  readonly id: string;
  readonly event: unknown;
  readonly timeoutMs: number;
  readonly answer: PromiseWithResolvers<{ ok: boolean; body: string }>;
}

const PREFIX = "/2018-06-01/runtime/invocation/";

/** The service's side of the Runtime API, with a queue. */
export class RuntimeApi implements AsyncDisposable {
  readonly #queue: Invocation[] = [];
  readonly #running = new Map<string, Invocation>();
  readonly #server: Deno.HttpServer<Deno.NetAddr>;
  readonly #timeoutMs: number;
  /** Wakes the instances that wait for an invocation. */
  readonly #idle = new Set<() => void>();

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
    const options = { port: 0, hostname: "127.0.0.1", onListen() {} };
    this.#server = Deno.serve(options, (request) => this.#serve(request));
  }

  /** Where the instances' loops connect to. */
  get url(): string {
    return `http://127.0.0.1:${this.#server.addr.port}`;
  }

  /** Invokes the function. Resolves with its result or its error, in JSON. */
  invoke(event: unknown, timeoutMs = this.#timeoutMs): Promise<{ ok: boolean; body: string }> {
    const answer = Promise.withResolvers<{ ok: boolean; body: string }>();
    this.#queue.push({ id: crypto.randomUUID(), event, timeoutMs, answer });
    for (const wake of this.#idle) wake();
    return answer.promise;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }

  async #serve(request: Request): Promise<Response> {
    const [id, what] = new URL(request.url).pathname.slice(PREFIX.length).split("/");
    if (id === "next") return await this.#next(request.signal);
    this.#running.get(id!)!.answer.resolve({ ok: what === "response", body: await request.text() });
    this.#running.delete(id!);
    return new Response(null, { status: 202 });
  }

  async #next(gone: AbortSignal): Promise<Response> {
    while (this.#queue.length === 0) {
      if (gone.aborted) return new Response(null, { status: 499 });
      const { promise: woken, resolve: wake } = Promise.withResolvers<void>();
      this.#idle.add(wake);
      gone.addEventListener("abort", () => wake(), { once: true });
      await woken;
      this.#idle.delete(wake);
    }
    const invocation = this.#queue.shift()!;
    this.#running.set(invocation.id, invocation);
    return Response.json(invocation.event, {
      headers: {
        "lambda-runtime-aws-request-id": invocation.id,
        "lambda-runtime-deadline-ms": String(Date.now() + invocation.timeoutMs),
      },
    });
  }
}

/** The loop of an instance: takes invocations one by one until the signal aborts. */
export async function runtimeLoop<Event>(
  url: string,
  handler: RuntimeHandler<Event>,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const next = await fetch(`${url}${PREFIX}next`, { signal }).catch(() => null);
    if (next === null || next.status !== 200) return void await next?.body?.cancel();
    const awsRequestId = next.headers.get("lambda-runtime-aws-request-id")!;
    const deadlineMs = Number(next.headers.get("lambda-runtime-deadline-ms"));
    const context = { awsRequestId, getRemainingTimeInMillis: () => deadlineMs - Date.now() };
    const event = await next.json();
    const invocation = (async () => await handler(event, context))();
    const [what, body] = await invocation.then(
      (result) => ["response", result],
      (error) => ["error", describe(error)],
    );
    const answer = await fetch(`${url}${PREFIX}${awsRequestId}/${what}`, {
      method: "POST",
      body: JSON.stringify(body ?? null),
    });
    await answer.body?.cancel();
  }
}

function describe(error: Error): Record<string, unknown> {
  const { name, message, cause } = error;
  const behind = cause instanceof Error ? cause.name : cause;
  return { ...error, errorType: name, errorMessage: message, cause: behind };
}

/** How long in ms an invocation may take. */
const TIMEOUT_MS = 60_000;

/** Serves a function behind an HTTP API, with one instance. */
export async function serveLambda(
  handler: RuntimeHandler<ApiGatewayEvent>,
): Promise<AsyncDisposable & { readonly url: string }> {
  const api = new RuntimeApi(TIMEOUT_MS);
  const stop = new AbortController();
  const loop = runtimeLoop(api.url, handler, stop.signal);
  const front = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    const { pathname, search } = new URL(request.url);
    const http = { method: request.method };
    const event: ApiGatewayEvent = {
      version: "2.0",
      rawPath: pathname,
      rawQueryString: search.slice(1),
      requestContext: { http },
    };
    const { ok, body } = await api.invoke(event);
    if (!ok) return new Response(body, { status: 500 });
    const { statusCode, headers, body: text } = JSON.parse(body);
    return new Response(text, { status: statusCode, headers });
  });
  return await Promise.resolve({
    url: `http://127.0.0.1:${front.addr.port}`,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await loop;
      await Promise.all([front.shutdown(), api[Symbol.asyncDispose]()]);
    },
  });
}
