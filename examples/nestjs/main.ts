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
import {
  HeldLease,
  Lock,
  LockInterceptor,
  LOCKS,
  type NestLockRequest,
} from "@holdfast/lock/http/nestjs";
import {
  type CallHandler,
  Controller,
  type ExecutionContext,
  Global,
  Inject,
  Injectable,
  Module,
  type NestInterceptor,
  NotFoundException,
  type OnApplicationShutdown,
  Param,
  Post,
  UseInterceptors,
} from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { setTimeout as pause } from "node:timers/promises";
import { type Observable, timeout } from "rxjs";

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

/** Locks the warehouse. A class of its own, so that Nest passes in the lock. */
@Injectable()
export class WarehouseLock extends LockInterceptor {
  constructor(@Inject(LOCKS) locks: DistributedLock) {
    super(locks, { key: "warehouse", waitMs: 5_000 });
  }
}

/** Answers with an error after 30 s. The handler runs on, and keeps its locks. */
@Injectable()
export class TimeLimit implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(timeout(30_000));
  }
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

@Controller("returns")
export class ReturnsController {
  @Post(":id")
  @Lock({ key, waitMs: 5_000 }) // 3. locks the order: `lease`
  @UseInterceptors(TimeLimit, WarehouseLock) // 1. limits the time, 2. locks the warehouse
  takeBack(@Param("id") id: string, @HeldLease() lease: Lease): object {
    return { id, locked: lease.name };
  }
}

@Module({ imports: [LocksModule], controllers: [OrdersController, ReturnsController] })
export class AppModule {}

async function main(): Promise<void> {
  const app = await NestFactory.create(AppModule);
  app.enableShutdownHooks();
  await app.listen(process.env.PORT ?? 3000);
  console.log(`Listening on ${await app.getUrl()}`);
}

void main();
