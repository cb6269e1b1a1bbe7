/* modes.pml -- shared holders and limits of RedisLock (docs/redis-protocol.md, "Shared holders"): untimed.
 * A companion of queue.pml, which has the connections, inboxes and messages in detail, for exclusive locks.
 * Server scripts are single atomic steps. Each client makes one call and asks again until it knows its fate.
 * The end of a lease is an event: the ghost own[c] says that the client may believe that it holds the lock.
 * Every fault has a budget (B_*), every rule a switch, whose default is the protocol. */
#ifndef NC
#define NC 4            /* clients */
#endif
#define X 99            /* limit of an exclusive call; else the most holders, 0 for any number */
#ifndef L0
#define L0 0
#endif
#ifndef L1
#define L1 0
#endif
#ifndef L2
#define L2 X
#endif
#ifndef L3
#define L3 X
#endif
#define LIM(c) ((c) == 0 -> L0 : ((c) == 1 -> L1 : ((c) == 2 -> L2 : L3)))
#ifndef BATCH
#define BATCH 1         /* grants of one call, then "searching" */
#endif
/* ---- rules ---- */
#ifndef GROW
#define GROW 1          /* the expiry of the marker only grows: it is that of the last holder; 0: that of the last grant */
#endif
#ifndef GENERATION
#define GENERATION 1    /* a holder has the generation of the marker; 0: any */
#endif
#ifndef LOST
#define LOST 1          /* a generation without a member has lost its queue: no limit counts it; 0: it has no holders */
#endif
#ifndef JOINLOST
#define JOINLOST 0      /* 1: calls without a limit join such a generation */
#endif
#ifndef MEMBER
#define MEMBER 1        /* only a holder with its member frees the lock; 0: its field is enough */
#endif
#ifndef LAST
#define LAST 1          /* only the last live holder frees the lock; 0: each */
#endif
#ifndef EVICTED
#define EVICTED 1       /* a marker whose holders are unknown is a held lock; 0: an exclusive ask takes it for free */
#endif
#ifndef BARGE
#define BARGE 0         /* 1: a shared ask joins the holders past the queue */
#endif
#ifndef TOMB
#define TOMB 1          /* a leave refuses late copies of the asks */
#endif
#ifndef GOON
#define GOON 1          /* the repeated ask of a holder goes on with an unfinished batch */
#endif
/* ---- faults ---- */
#ifndef B_CRASH
#define B_CRASH 0
#endif
#ifndef B_EXP
#define B_EXP 0         /* a lease or claim of a live process ends: it is frozen or slow */
#endif
#ifndef B_DUP
#define B_DUP 0         /* a copy of an ask arrives late */
#endif
#ifndef B_LOSE
#define B_LOSE 0        /* an answer or a message is lost */
#endif
#ifndef B_ABORT
#define B_ABORT 0
#endif
#ifndef B_QLOST
#define B_QLOST 0       /* the queue key is lost */
#endif
#ifndef B_HLOST
#define B_HLOST 0       /* the hash is lost */
#endif
#ifndef B_DEL
#define B_DEL 0         /* a foreign DEL of the lock key: its holders are excused */
#endif

#define FREE 0
#define MARK 50
#define ASK 0
#define WAIT 1
#define HOLD 2
#define LEAVE 3
#define DONE 4
#define DEAD 5
#define GRANTED 1
#define QUEUED 2
#define SEARCHING 3
#define GONE 4
#define OK 5

byte L;                 /* FREE, MARK or the client that holds it, plus 1 */
byte gen; byte gens;    /* the generation of the marker, and the last number */
byte setBy;             /* who extended the marker last (GROW=0) */
bit mem[NC]; byte mgen[NC];     /* the member of a holder, with its generation */
bit fld[NC]; byte fgen[NC];     /* its field */
bit up[NC];             /* its end, as both have it, is in the future */
byte q[NC]; byte qn;
bit tomb[NC];
byte ph[NC]; bit msg[NC]; bit dup[NC]; bit renewed[NC];
byte b_crash = B_CRASH; byte b_exp = B_EXP; byte b_dup = B_DUP; byte b_lose = B_LOSE; byte b_abort = B_ABORT;
byte b_qlost = B_QLOST; byte b_hlost = B_HLOST; byte b_del = B_DEL;
/* ghosts */
bit own[NC];            /* the client may believe that it holds the lock */
byte place[NC]; byte places;    /* order of the first asks that were queued */
bit unordered;          /* the queue was lost, and with it the order */

#ifdef BFSMODE
#define HID                             /* Spin cannot search breadth first with hidden variables */
#else
#define HID hidden
#endif
HID byte i; HID byte j; HID byte n; HID byte any; HID byte ok; HID byte g; HID byte r; HID byte steps; HID byte srch;

#define EXCL(c) (LIM(c) == X)

inline count() {                /* -> n: live holders of the generation; any: members of it */
  n = 0; any = 0; i = 0;
  do :: i < NC ->
        if :: mem[i] && (mgen[i] == gen || !GENERATION) -> any++; if :: up[i] -> n++ :: else fi :: else fi; i++
     :: else -> break od
}
inline mayHold(c) {             /* -> ok */
  ok = 0;
  if :: L == FREE -> ok = 1
     :: L == MARK && EXCL(c) -> if :: !EVICTED -> count(); ok = (any == 0) :: else fi
     :: L == MARK && !EXCL(c) ->
        count();
        if :: any == 0 && LOST -> ok = (JOINLOST && LIM(c) == 0)
           :: else -> ok = (LIM(c) == 0 || n < LIM(c)) fi
     :: else fi
}
inline holds(c) {                /* -> ok: c is a holder */
  ok = fld[c] && up[c] && (mem[c] || !MEMBER) && (!GENERATION || (fgen[c] == gen && (mgen[c] == gen || !MEMBER)))
}
inline unqueue(c) {
  j = 0;
  do :: j < qn && q[j] != c -> j++ :: else -> break od;
  if :: j < qn -> do :: j + 1 < qn -> q[j] = q[j+1]; j++ :: else -> break od; qn--; q[qn] = 0 :: else fi
}
inline grant(c) {
  i = 0; n = 0;
  do :: i < NC ->
        if :: i != c && own[i] ->
              assert(!EXCL(c));                         /* an exclusive holder is alone */
              assert(!EXCL(i)); n++
           :: else fi;
        if :: i != c && place[i] > 0 && (place[c] == 0 || place[i] < place[c]) && (ph[i] == ASK || ph[i] == WAIT) ->
              assert(unordered)                         /* nobody is overtaken */
           :: else fi;
        i++
     :: else -> break od;
  assert(EXCL(c) || LIM(c) == 0 || n < LIM(c));         /* no more than the limit */
  assert(ph[c] != DONE);                                /* nobody would ever release it */
  own[c] = 1; up[c] = 1; place[c] = 0;
  if :: EXCL(c) -> L = c + 1
     :: else ->
        if :: L != MARK -> gens++; gen = gens; L = MARK :: else fi;
        mem[c] = 1; mgen[c] = gen; fld[c] = 1; fgen[c] = gen; setBy = c
  fi;
  n = 0; i = 0; printf("grant to c%d\n", c)
}
inline admit(self) {            /* -> srch: more may follow */
  steps = 0; srch = 0;
  do :: qn == 0 -> break
     :: qn > 0 && steps == BATCH -> srch = 1; break
     :: qn > 0 && steps < BATCH ->
        g = q[0];
        if :: ph[g] == DEAD -> unqueue(g)               /* its inbox is parked */
           :: else ->
              mayHold(g);
              if :: !ok -> break
                 :: else ->
                    unqueue(g); grant(g); steps++;
                    if :: g != self -> msg[g] = 1 :: else fi;
                    if :: EXCL(g) -> break :: else fi
              fi
        fi
  od
}
inline sAsk(c) {
  srch = 0;
  if :: tomb[c] -> r = GONE
     :: !tomb[c] && L == c + 1 -> r = GRANTED
     :: else ->
        holds(c);
        if :: L == MARK && !EXCL(c) && ok ->
              unqueue(c); setBy = c;
              if :: GOON -> admit(c) :: else fi;
              r = (srch -> SEARCHING : GRANTED)
           :: else ->
              mayHold(c);
              if :: ok && (qn == 0 || (BARGE && !EXCL(c))) -> unqueue(c); grant(c); r = GRANTED
                 :: else ->
                    j = 0;
                    do :: j < qn && q[j] != c -> j++ :: else -> break od;
                    if :: j == qn -> q[qn] = c; qn++; if :: place[c] == 0 -> places++; place[c] = places :: else fi :: else fi;
                    if :: L == FREE || (L == MARK && (!EXCL(c) || !EVICTED)) -> admit(c) :: else fi;
                    if :: srch && !EXCL(c) -> r = SEARCHING    /* an exclusive one would find the lock held */
                       :: !srch && own[c] && !EXCL(c) -> r = GRANTED
                       :: !srch && L == c + 1 -> r = GRANTED
                       :: else -> r = QUEUED fi
              fi
        fi
  fi;
  if :: r == GRANTED && qn > 0 && ph[q[0]] != DEAD ->
        mayHold(q[0]); assert(!ok)                      /* a batch is over: nobody is left to wait for a poll */
     :: else fi
}
inline sLeave(c) {
  unqueue(c); place[c] = 0; srch = 0; own[c] = 0;
  if :: TOMB && dup[c] -> tomb[c] = 1 :: else fi;
  if :: L == c + 1 -> L = FREE
     :: L == MARK && !EXCL(c) ->
        holds(c);
        if :: ok ->
              mem[c] = 0; fld[c] = 0; up[c] = 0; count();
              if :: n == 0 || !LAST -> L = FREE; gen = 0 :: else fi
           :: else fi
     :: else fi;
  if :: L == FREE || L == MARK -> admit(99) :: else fi;
  r = (srch -> SEARCHING : OK)
}
inline sRenew(c) {
  holds(c);
  if :: L == c + 1 -> r = OK
     :: L == MARK && !EXCL(c) && ok -> r = OK; setBy = c; assert(own[c])    /* "held" means held */
     :: else -> r = GONE fi
}

proctype Client(byte c) {
  do
  :: atomic { ph[c] == ASK || ph[c] == WAIT ->
       sAsk(c); printf("c%d asks, reply %d\n", c, r);
       if :: b_dup > 0 && !dup[c] -> b_dup--; dup[c] = 1; printf("c%d: a copy of the ask stays under way\n", c)
          :: true fi;
       if :: b_lose > 0 -> b_lose--; ph[c] = ASK
          :: true ->
             if :: r == GRANTED -> ph[c] = HOLD; msg[c] = 0
                :: r == SEARCHING -> ph[c] = ASK
                :: r == QUEUED -> ph[c] = WAIT
                :: r == GONE -> assert(false) fi
       fi; r = 0 }
  :: atomic { ph[c] == WAIT && msg[c] -> msg[c] = 0; ph[c] = HOLD; printf("c%d gets the message\n", c) }
  :: atomic { ph[c] == WAIT && msg[c] && b_lose > 0 -> b_lose--; msg[c] = 0 }
  :: atomic { (ph[c] == ASK || ph[c] == WAIT) && b_abort > 0 -> b_abort--; ph[c] = LEAVE }
  :: atomic { ph[c] == HOLD && !renewed[c] -> renewed[c] = 1; sRenew(c); printf("c%d renews, reply %d\n", c, r);
       if :: r == GONE -> ph[c] = LEAVE :: else fi; r = 0 }
  :: atomic { ph[c] == HOLD -> ph[c] = LEAVE }
  :: atomic { ph[c] == LEAVE -> sLeave(c); printf("c%d leaves, reply %d\n", c, r);
       if :: r == OK -> ph[c] = DONE; msg[c] = 0 :: else fi; r = 0 }
  :: atomic { ph[c] < DONE && b_crash > 0 -> b_crash--; ph[c] = DEAD; printf("c%d dies\n", c) }
  :: ph[c] >= DONE -> break
  od
}

#define OVER(c) ((c) >= NC || ph[c] >= DONE)
inline expire(c) {
  own[c] = 0; up[c] = 0; if :: L == c + 1 -> L = FREE :: else fi; printf("TTL of c%d is over\n", c)
}
/* what happens to one client from outside */
proctype Fate(byte c) {
end:
  do
  :: atomic { own[c] && (ph[c] >= DONE || b_exp > 0) -> if :: ph[c] < DONE -> b_exp-- :: else fi; expire(c) }
  :: atomic { dup[c] -> dup[c] = 0; sAsk(c); r = 0; printf("STALE ask of c%d\n", c) }
  od
}
proctype Env() {
end:
  do
  :: atomic { L == MARK && (GROW -> !(own[0] || own[1] || own[2] || own[3]) : !own[setBy]) ->
       L = FREE; gen = 0; printf("TTL of the marker is over\n") }
  :: atomic { b_qlost > 0 -> b_qlost--; unordered = 1; i = 0;
       do :: i < NC -> mem[i] = 0; q[i] = 0; i++ :: else -> break od; qn = 0; i = 0; printf("FLUSH of the queue key\n") }
  :: atomic { b_hlost > 0 -> b_hlost--; unordered = 1; i = 0;
       do :: i < NC -> fld[i] = 0; q[i] = 0; tomb[i] = 0; i++ :: else -> break od; qn = 0; i = 0; printf("FLUSH of the hash\n") }
  :: atomic { b_del > 0 && L != FREE -> b_del--; L = FREE; gen = 0; i = 0;
       do :: i < NC -> own[i] = 0; i++ :: else -> break od; i = 0; printf("foreign DEL\n") }
  od
}
init { atomic { run Client(0); run Client(1); run Client(2); run Client(3); run Fate(0); run Fate(1); run Fate(2); run Fate(3); run Env() } }
ltl live { <> (OVER(0) && OVER(1) && OVER(2) && OVER(3)) }
