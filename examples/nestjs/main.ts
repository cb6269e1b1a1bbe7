/**
 * An order endpoint on NestJS, in CommonJS as Nest has it by default. In a project with
 * `@nestjs/platform-express` and `koffi`: `npm install @holdfast/lock`, `npx tsc`, `node dist/main.js`,
 * then `curl -X POST localhost:3000/orders/42`. Processes with the same `LOCK_DIR` share the lock.
 *
 * @module
 */
import "reflect-metadata";
import type { DistributedLock, Lease } from "@holdfast/lock";
import { FileLock } from "@holdfast/lock/file";
import { HeldLease, Lock, LOCKS, type NestLockRequest } from "@holdfast/lock/http/nestjs";
import {
  Controller,
  Global,
  Inject,
  Module,
  NotFoundException,
  type OnApplicationShutdown,
  Param,
  Post,
} from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { setTimeout as pause } from "node:timers/promises";

@Global() // one lock for all modules
@Module({
  providers: [{ provide: LOCKS, useFactory: () => new FileLock({ dir: process.env.LOCK_DIR }) }],
  exports: [LOCKS],
})
export class LocksModule implements OnApplicationShutdown {
  constructor(@Inject(LOCKS) private readonly locks: DistributedLock) {}

  /** Nest calls this once all requests are answered. */
  async onApplicationShutdown(): Promise<void> {
    await this.locks[Symbol.asyncDispose]();
  }
}

/** The key is made of the validated id, not of the URL: an order has many URLs, but one lock. */
function key({ params }: NestLockRequest): string {
  if (!/^[1-9][0-9]*$/.test(params.id ?? "")) throw new NotFoundException();
  return `orders:${params.id}`;
}

@Controller("orders")
export class OrdersController {
  @Post(":id")
  @Lock({ key, waitMs: 5_000 })
  async ship(@Param("id") id: string, @HeldLease() lease: Lease): Promise<object> {
    const startMs = Date.now();
    await pause(20, undefined, { signal: lease.signal }); // throws if the lease is lost
    return { id, token: String(lease.fencingToken), held: [startMs, Date.now()] };
  }
}

@Module({ imports: [LocksModule], controllers: [OrdersController] })
export class AppModule {}

async function main(): Promise<void> {
  const app = await NestFactory.create(AppModule, { logger: ["error"] });
  app.enableShutdownHooks();
  await app.listen(process.env.PORT ?? 3000);
  console.log(`Listening on ${await app.getUrl()}`);
}

void main();
