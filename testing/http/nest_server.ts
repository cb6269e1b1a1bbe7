/**
 * The server under test in NestJS. Its decorators are applied as functions: the project is compiled without
 * those of TypeScript.
 *
 * @module
 */
import "reflect-metadata";
import {
  All,
  Controller,
  HttpCode,
  type LoggerService,
  Module,
  Req,
  StreamableFile,
  type Type,
} from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import type { NestExpressApplication } from "@nestjs/platform-express";
import { FastifyAdapter, type NestFastifyApplication } from "@nestjs/platform-fastify";
import { Readable } from "node:stream";
import { HeldLease, Lock, LOCKS } from "../../http/nestjs.ts";
import type { DistributedLock, Lease } from "../../mod.ts";
import { handle, keyOf, ROUTES, type ServerParts } from "./handler.ts";

/** The HTTP frameworks below Nest. */
export type NestPlatform = "express" | "fastify";

interface NestRequest {
  readonly method: string;
  readonly originalUrl: string;
}

/** Applies decorators to a method of a class, as `@decorator` does. */
export function decorate(target: Type, name: string, ...decorators: MethodDecorator[]): void {
  const descriptor = Object.getOwnPropertyDescriptor(target.prototype, name)!;
  for (const decorator of decorators) decorator(target.prototype, name, descriptor);
  Object.defineProperty(target.prototype, name, descriptor);
}

/** Starts an application with these controllers on any free port. */
export async function serveNest(
  lock: DistributedLock,
  controllers: readonly Type[],
  platform: NestPlatform = "express",
  logger: LoggerService | false = false,
): Promise<{ readonly url: string } & AsyncDisposable> {
  class App {}
  Module({ controllers: [...controllers], providers: [{ provide: LOCKS, useValue: lock }] })(App);
  const options = { logger, forceCloseConnections: true } as const;
  const app = platform === "express"
    ? await NestFactory.create<NestExpressApplication>(App, options)
    : await NestFactory.create<NestFastifyApplication>(App, new FastifyAdapter(), options);
  await app.listen(0, "127.0.0.1");
  return {
    url: await app.getUrl(),
    [Symbol.asyncDispose]: () => app.close(),
  };
}

/** Starts the server of the suite. */
export async function nestServer(
  parts: ServerParts,
  platform: NestPlatform = "express",
): Promise<{ readonly url: string } & AsyncDisposable> {
  class Routes {}
  Controller()(Routes);
  for (const [i, { path, ...options }] of ROUTES.entries()) {
    const name = `route${i}`;
    Object.defineProperty(Routes.prototype, name, {
      async value({ method, originalUrl }: NestRequest, lease: Lease | undefined) {
        const answer = await handle(parts, originalUrl, lease);
        if ("text" in answer) return answer.text;
        return method === "HEAD" ? "" : new StreamableFile(Readable.from(answer.stream));
      },
      configurable: true,
      writable: true,
    });
    const key = ({ originalUrl }: NestRequest) => keyOf(parts, originalUrl);
    decorate(Routes, name, All(path), HttpCode(200), Lock<NestRequest>({ ...options, key }));
    Req()(Routes.prototype, name, 0);
    HeldLease()(Routes.prototype, name, 1);
  }
  return await serveNest(parts.lock, [Routes], platform);
}
