/* queue.pml -- the queue of RedisLock (docs/redis-protocol.md): untimed protocol model.
 * Server scripts are single atomic steps. A client is one acquire call after another; PROC maps clients to
 * processes. A process has one inbox (pub/sub), and its foremost waiter asks for all. A client has one FIFO
 * command connection (requests are executed in order, answered in order, replayed in order after a cut: more
 * orders than the one connection of a process allows) and optionally a "stale copy": bytes of an old
 * connection that reach the server later, in any order.
 * TTL expiry is an event; the client's belief ends no later (constraint), unless -DPAUSE.
 * Every fault has a budget (B_*), every protocol decision a switch. README.md tells how to run it. */
#ifndef NC
#define NC 2            /* clients */
#endif
#ifndef K
#define K 1             /* acquire attempts per client, each with a fresh owner id */
#endif
#ifndef K0
#define K0 K            /* attempts of client 0 */
#endif
#ifndef SHARE
#define SHARE 0         /* processes: 0 one for each client; 1 clients 1.. share one; 2 clients 0 and 1 share one, and so do 2 and 3;
                           3 all share one; 4 clients 1 and 2 share one */
#endif
#if SHARE == 0
#define NP NC
#define PROC(c) (c)
#elif SHARE == 1
#define NP 2
#define PROC(c) ((c) > 0)
#elif SHARE == 2
#define NP ((NC+1)/2)
#define PROC(c) ((c)/2)
#elif SHARE == 3
#define NP 1
#define PROC(c) (0*(c))
#else
#define NP (1+NC/2)
#define PROC(c) (((c)+1)/2)
#endif
#ifndef BOUND
#define BOUND 9         /* inboxes that one script call looks at */
#endif
#ifndef CAP
#define CAP 3           /* requests in flight per connection */
#endif
#ifndef REUSE
#define REUSE 0         /* 1: caller-made owner id, the same id on every attempt */
#endif
#define KOF(c) ((c) == 0 -> K0 : K1)
#ifndef K1
#define K1 K            /* attempts of clients 1.. */
#endif
#if REUSE
#define NI NC
#define ID(c,k) ((c)+1)
#define CLI(o) ((o)-1)
#else
#define NI (NC*K)
#define ID(c,k) ((c)*K+(k)+1)
#define CLI(o) (((o)-1)/K)
#endif
#define FOR 15          /* value of a foreign SET NX holder */

/* ---- protocol switches (defaults: the recommended protocol) ---- */
#ifndef SUBMODE
#define SUBMODE 3       /* 0 enqueue, then subscribe; 1 subscribe before the first enqueue; 2 as 0, but the entry says "not listening
                           yet" and is passed over; 3 as 2, but it is granted the lock (a claim; it learns of it by its re-ask) */
#endif
#ifndef SKIP
#define SKIP 1          /* the inbox has no subscriber: 0 remove the waiter, 1 look past it, it stays; 2 don't look (Cluster) */
#endif
#ifndef CARRY
#define CARRY 1         /* a re-ask carries the ticket of the first answer */
#endif
#ifndef MOVE
#define MOVE 1          /* a re-ask with an earlier ticket than the queued one moves there (a stale copy may have enqueued it anew) */
#endif
#ifndef TOMB
#define TOMB 2          /* remember ended owner ids: 0 never, 1 cancel only, 2 cancel and unclean release, 3 always, 4 last owner only (kept in F), 5 unclean cancel and release */
#endif
#ifndef LATE
#define LATE 1          /* grant known too late: 0 release and go on with the same id, 1 re-ask, 2 end this id (cancel) and report lost */
#endif
#ifndef DEFNO
#define DEFNO 1         /* error "nothing was written": 0 trusted, 1 cleaned up unless this id was asked for exactly once,
                           in one copy, 2 as 1 but a re-ask's error is trusted */
#endif
#ifndef HELDNO
#define HELDNO 1        /* tryAcquire answered "held": 0 final, 1 cleaned up unless sent exactly once */
#endif
#ifndef RELQ
#define RELQ 1          /* the clean-up also leaves the queue */
#endif
#ifndef FBGUARD
#define FBGUARD 1       /* EVALSHA->EVAL fallback of acquire only while the caller still wants it */
#endif
#ifndef LOSTCLEAN
#define LOSTCLEAN 1     /* a lease lost locally is released in the background */
#endif
#ifndef RELTOK
#define RELTOK 0        /* release is guarded by the fencing token too */
#endif
#ifndef HANDON
#define HANDON 1        /* a grant for an id that has gone is released at once */
#endif
#ifndef REASK
#define REASK 1         /* the foremost waiter of a process asks again and again; 0: only after a gap */
#endif
#ifndef NAME
#define NAME 1          /* a queued answer names the holder, if it came from the queue and is of the asker's process: 0 never,
                           1 while it has not confirmed its claim, 2 always */
#endif
#ifndef UNKNOWN
#define UNKNOWN 1       /* a named holder that the process does not know is left for */
#endif
#ifndef COUNT
#define COUNT 1         /* fewer waiters in the answer than there are here: all ask. 0 not compared; 2 a shortfall of one is taken
                           for a grant under way even if no holder is named */
#endif
#ifndef GRCOUNT
#define GRCOUNT 1       /* so they do if a granted answer has fewer of the others (the queue was lost) */
#endif
#ifndef ACTS
#define ACTS 1          /* who acts on the count and the named holder: 1 each answer, 0 only that of the foremost waiter */
#endif
#ifndef UNPARK
#define UNPARK 1        /* an ask returns 1 the whole parked inbox, 0 only the asker */
#endif
#ifndef PARKKEEP
#define PARKKEEP 1      /* waiters of a parked inbox keep their records and places */
#endif
#ifndef PARKDEAD
#define PARKDEAD 1      /* an ask may park any inbox without a lease: 1 also while the lock is held, 0 only at a search */
#endif
#ifndef OWNPARK
#define OWNPARK 0       /* 1: a lapsed claim ends the lease of the asker's own inbox too */
#endif
#ifndef LAPSEEND
#define LAPSEEND 1      /* an unconfirmed claim that lapsed parks its inbox */
#endif
#ifndef LAPSEKEEP
#define LAPSEKEEP 1     /* ... also if it has no waiter left, which keeps the last ticket; 0: only an inbox with waiters */
#endif
#ifndef LAPSEONCE
#define LAPSEONCE 1     /* an ask of its process makes the server forget a lapsed claim */
#endif
#ifndef HOLDKEEP
#define HOLDKEEP 1      /* the last ticket is kept while a claim from the queue is not confirmed */
#endif
#ifndef SEARCHING
#define SEARCHING 1     /* 64 dead inboxes in one call: 1 nobody gets the lock yet, 0 as if there were no others */
#endif
#ifndef ASIDE
#define ASIDE 0         /* an inbox without a subscriber: 0 stays where it is, and is looked at again by the next search; 1 is set aside
                           until its process asks again */
#endif
#ifndef UNHEARD
#define UNHEARD 1       /* all live inboxes have no subscriber: 1 the first gets the lock, 0 nobody */
#endif
#ifndef SYNC
#define SYNC 0          /* 1: the server runs a request as soon as it is sent (fewer orders, far fewer states) */
#endif
#ifndef SLOWEND
#define SLOWEND 1       /* the TTL may run out while the holder's release is under way, without a budget */
#endif
#ifndef GIVEUP
#define GIVEUP 0        /* a leave that is answered "searching" is 0 sent again, 1 not */
#endif
#ifndef SRCHCLEAN
#define SRCHCLEAN 1     /* a call that was answered "searching" leaves the queue when it ends */
#endif
#ifndef STRICT
#define STRICT 0        /* 1: a claim lapses only if its process is dead (liveness: nothing may rely on the lapse) */
#endif
#ifndef STEALCAS
#define STEALCAS 1      /* steal only from the token it was decided against */
#endif
#ifndef BARGE
#define BARGE 0         /* 1: acquire takes a free lock even if others wait (to show that the FIFO check bites) */
#endif
#ifndef CLOSEFIRST
#define CLOSEFIRST 1    /* dispose may close the inbox before the clean-up is confirmed */
#endif
/* ---- fault budgets ---- */
#ifndef B_CUT
#define B_CUT 0         /* command connection cut: replies lost; library replays, or fails the requests */
#endif
#ifndef B_STALE
#define B_STALE 0       /* at a cut, bytes still under way on the old connection arrive later */
#endif
#ifndef B_TIMEOUT
#define B_TIMEOUT 0     /* the strategy stops waiting for an answer and asks again */
#endif
#ifndef B_ABORT
#define B_ABORT 0
#endif
#ifndef B_CRASH
#define B_CRASH 0
#endif
#ifndef B_GAP
#define B_GAP 0         /* subscriber connection lost and noticed by the server */
#endif
#ifndef B_LOSE
#define B_LOSE 0        /* grant message lost although PUBLISH counted a receiver */
#endif
#ifndef B_LAPSE
#define B_LAPSE 0       /* inbox lease of a live process lapses */
#endif
#ifndef B_SWEEP
#define B_SWEEP 0       /* a waiter of a parked inbox is swept */
#endif
#ifndef B_QLOST
#define B_QLOST 0       /* the queue is lost, the lock is not */
#endif
#ifndef B_GIVEUP
#define B_GIVEUP 0      /* a clean-up ends unconfirmed */
#endif
#ifndef B_EXP
#define B_EXP 0         /* lock TTL / claim of a live client runs out */
#endif
#ifndef B_LATE
#define B_LATE 0        /* answer or message past the client's own deadline although the server still holds */
#endif
#ifndef B_EARLY
#define B_EARLY 0       /* the client's own deadline passes before the server's */
#endif
#ifndef B_FLUSH
#define B_FLUSH 0
#endif
#ifndef B_NOSCR
#define B_NOSCR 0
#endif
#ifndef B_ERR
#define B_ERR 0         /* request answered READONLY/OOM/LOADING..., not executed */
#endif
#ifndef B_FOREIGN
#define B_FOREIGN 0     /* SET NX by another library */
#endif
#ifndef TRYC
#define TRYC 99         /* this client uses tryAcquire */
#endif
#ifndef STEALC
#define STEALC 99       /* this client steals */
#endif
#ifndef PAUSE
#define PAUSE 0         /* 1: a paused client goes on believing after the server's expiry */
#endif
/* ---- what is checked ---- */
#ifndef C_I1
#define C_I1 1
#endif
#ifndef C_FIFO
#define C_FIFO 1
#endif
#ifndef C_LEAK
#define C_LEAK 1
#endif
#ifndef C_RES
#define C_RES 1
#endif

/* phases */
#define IDLE 0
#define ASK 1           /* an acquire() is running, not known to be queued */
#define WAIT 2          /* known to be queued */
#define HOLD 3
#define CLEAN 4         /* the attempt is over for the caller; clean-up not confirmed */
#define DONE 5
#define DEAD 6
/* requests */
#define ACQ 1
#define TRY 2
#define END 3           /* release and cancel: one script, flag tb = leave a tombstone */
#define REN 4
#define STL 5
/* replies */
#define R_GR 1
#define R_Q 2
#define R_HELD 3
#define R_GONE 4
#define R_OK 5
#define R_LOST 6
#define R_NOSCR 7
#define R_ERR 8
#define R_SRCH 9

typedef Conn {
  byte n;
  byte ty[CAP]; byte id[CAP]; byte rv[CAP]; byte rt[CAP];
  byte ct[CAP]; byte oh[CAP];  /* queued answer: waiters of this inbox; the holder, if it is one of them */
  bit st[CAP];          /* executed, answer under way */
  bit w[CAP];           /* somebody waits for the answer */
  bit tb[CAP];          /* tombstone flag */
  bit li[CAP];          /* "I am listening" */
  bit tk[CAP];          /* carries the ticket */
  byte gt[CAP]          /* END: token guard (RELTOK); STL: expected token (STEALCAS) */
}
Conn cn[NC];
chan inbox[NC] = [2] of { byte, byte };
byte ph[NC]; byte kk[NC]; byte tok[NC];
byte bel[NC];           /* 1: believes it holds; 2: the same, but excused (flush, steal) */
bit sub[NP];            /* subscription of the process, as the server sees it */
bit lis[NP];            /* as the process sees it */
bit need[NC];           /* this waiter must ask */
bit dirty[NC];          /* an acquire of the current id may have more than one copy */
bit srch[NC];           /* its only answer was "searching" (SRCHCLEAN) */
bit first[NC]; bit multi[NC];          /* more than one ask was sent for the current id */
bit aw[NC]; bit cw[NC]; /* a wanted acquire / clean-up is outstanding */
bit claimed[NC];        /* hold by claim, first renewal not sent yet */
byte sg[NC];             /* token a steal was decided against */
byte lastTok; byte lastOwn;

/* server */
byte L; bit claim; byte F; byte Fown;
byte q[NI+1]; byte qn;
byte qt[NI+1];          /* ticket of a queued id */
byte nt;                /* last ticket */
bit il[NP];             /* the inbox has a lease */
bit dec[NP];            /* the inbox has proved that it listens */
bit aside[NP];          /* had no subscriber when a search looked at it (ASIDE) */
bit parked[NP];         /* perhaps without waiters: then for the last ticket */
byte hid; byte hst;     /* holder from the queue: 0 none, 1 unconfirmed, 2 confirmed; stays when its TTL is over */
bit tomb[NI+1];
byte ctk[NI+1];         /* ticket the client knows */
/* stale copy */
byte sTy; byte sId; bit sTb; byte sGt;
/* ghosts */
byte expTok[NI+1];      /* highest token of this id that ran out by time */
byte exempt;            /* tokens up to this one were flushed or stolen */
byte ft[NI+1]; byte nf; /* order of first enqueue */
byte f0[NI+1];          /* the same, of a place that was given up before its owner knew of it */
bit gapb[NP];           /* subscriber gap, not yet resubscribed */
bit lap[NP];            /* its lease or claim has lapsed, and it has not asked since */
bit ex[NI+1];           /* excused from FIFO until it has asked again */
bit clm[NI+1];          /* its claim has lapsed, and it has not asked since: its place is kept */
bit lostp[NI+1];        /* its place was kept long enough and is gone */
bit lq[NI+1];           /* the queue was lost, and it has not asked since */
byte bef[NI+1];         /* whom it may overtake: those had not asked since the loss when it was queued first (bits) */
bit over[NI+1];         /* the attempt is finished and its clean-up (if any) confirmed */
bit fbel;               /* foreign holder believes */
byte resTok;            /* the resource's highest token */
byte nsteal;            /* evictions done by the one logical steal */
bit shared;             /* PAUSE: two at once seen */
/* budgets left */
byte b_cut=B_CUT; byte b_stale=B_STALE; byte b_to=B_TIMEOUT; byte b_ab=B_ABORT; byte b_cr=B_CRASH; byte b_gap=B_GAP;
byte b_lose=B_LOSE; byte b_lapse=B_LAPSE; byte b_exp=B_EXP; byte b_late=B_LATE; byte b_fl=B_FLUSH; byte b_nos=B_NOSCR;
byte b_err=B_ERR; byte b_for=B_FOREIGN; byte b_early=B_EARLY; byte b_sweep=B_SWEEP; byte b_ql=B_QLOST; byte b_gu=B_GIVEUP;

#define PR6(f,a1,a2,a3,a4,a5,a6) printf(f,a1,a2,a3,a4,a5,a6)
#ifdef BFSMODE
#define HID
#else
#define HID hidden
#endif
HID byte i, j, m, o, g, rr, x, y, u;
HID byte sr, uh, lk, ib, w, rc, ro, nx, sf;
HID byte fnd;
HID byte old;            /* the request that runs is a stale copy: it does not count as having asked again */

#define CUR(c) ID(c,kk[c])
#define PO(o) PROC(CLI(o))
/* the foremost waiter of its process (waiters queue in any order, so the first by number may be any of them) */
#define BEFORE(u,c) ((u) < (c) && PROC(u) == PROC(c) && ph[u] == WAIT)
#if NC == 2
#define FORE(c) (!BEFORE(0,c))
#define NOWAIT(p) (!(PROC(0) == p && LIVE(0)) && !(PROC(1) == p && LIVE(1)))
#elif NC == 3
#define FORE(c) (!BEFORE(0,c) && !BEFORE(1,c))
#define NOWAIT(p) (!(PROC(0) == p && LIVE(0)) && !(PROC(1) == p && LIVE(1)) && !(PROC(2) == p && LIVE(2)))
#else
#define FORE(c) (!BEFORE(0,c) && !BEFORE(1,c) && !BEFORE(2,c))
#define NOWAIT(p) (!(PROC(0) == p && LIVE(0)) && !(PROC(1) == p && LIVE(1)) && !(PROC(2) == p && LIVE(2)) && !(PROC(3) == p && LIVE(3)))
#endif
#define LEAD(c) ((c) == 0 || PROC((c)-1) != PROC(c))            /* one client of each process: faults that hit them all */
#define LIVE(c) (ph[c] == ASK || ph[c] == WAIT)
#define WAITING(o) (CUR(CLI(o)) == (o) && (ph[CLI(o)] == ASK || ph[CLI(o)] == WAIT))

/* ------------------------------------------------------------------ queue */
inline qdel(a) {
  j = 0;
  do :: j < qn && q[j] != a -> j++ :: else -> break od;
  if :: j < qn ->
        do :: j+1 < qn -> q[j] = q[j+1]; j++ :: else -> break od;
        qn--; q[qn] = 0; qt[a] = 0
     :: else fi
}
inline tidy() {                 /* an inbox without waiters is forgotten */
  m = 0;
  do :: m < NP -> count(m); if :: w == 0 -> il[m] = 0; dec[m] = 0; aside[m] = 0 :: else fi; m++ :: else -> break od; w = 0
}
inline count(p) {               /* -> w: the waiters of an inbox */
  w = 0; j = 0;
  do :: j < qn -> if :: PO(q[j]) == p -> w++ :: else fi; j++ :: else -> break od
}
inline anyParked() {            /* -> fnd */
  fnd = 0; j = 0;
  do :: j < NP -> if :: parked[j] -> fnd = 1 :: else fi; j++ :: else -> break od
}
inline qhas(a) {
  fnd = 0; j = 0;
  do :: j < qn -> if :: q[j] == a -> fnd = 1 :: else fi; j++ :: else -> break od
}
/* a newcomer between the loss of the queue and the next ask of a waiter is exempt */
inline noteLost(a) {
  m = 1; do :: m <= NI -> if :: lq[m] && m != a && WAITING(m) -> bef[a] = bef[a] | (1 << m) :: else fi; m++ :: else -> break od; m = 0
}
inline qput(a, carried) {      /* enqueue or refresh */
  qhas(a);
  if :: fnd && CARRY && MOVE && carried && ctk[a] > 0 && ctk[a] < qt[a] -> qdel(a); fnd = 0
     :: else fi;
  if :: fnd
     :: else ->
        if :: CARRY && carried && ctk[a] > 0 -> qt[a] = ctk[a]; if :: nt < ctk[a] -> nt = ctk[a] :: else fi
           :: else -> nt++; qt[a] = nt fi;
        j = qn;
        do :: j > 0 && qt[q[j-1]] > qt[a] -> q[j] = q[j-1]; j-- :: else -> break od;
        q[j] = a; qn++;
        if :: CARRY && carried && ctk[a] > 0 && f0[a] > 0 -> ft[a] = f0[a]; f0[a] = 0     /* its answer was under way: back to its place */
           :: !(CARRY && carried && ctk[a] > 0 && f0[a] > 0) ->
              if :: ft[a] == 0 -> nf++; ft[a] = nf; noteLost(a); if :: !old -> f0[a] = 0 :: else fi :: else fi
        fi
  fi
}
/* an ask that waits: it also renews the lease of its inbox, and returns a parked one */
inline enter(a, listening, carried) {
  ib = PO(a);
  if :: !old -> ex[a] = 0; lq[a] = 0; clm[a] = 0; lap[ib] = 0 :: else fi;
  if :: LAPSEONCE && hst == 1 && L != hid && PO(hid) == ib -> hst = 0; hid = 0 :: else fi;
  if :: parked[ib] && !UNPARK ->                                /* the others lose their places in the queue */
        i = 0;
        do :: i < qn -> if :: q[i] != a && PO(q[i]) == ib -> o = q[i]; qdel(o) :: else -> i++ fi :: else -> break od
     :: else fi;
  qput(a, carried);
  parked[ib] = 0; il[ib] = 1;
  /* a first ask trusts the record; a repeated one counts the subscribers again */
  if :: SUBMODE == 2 -> dec[ib] = 1
     :: else -> if :: !listening || SKIP == 2 -> dec[ib] = 0 :: listening && SKIP != 2 && dec[ib] && !aside[ib] && !carried :: else -> dec[ib] = sub[ib] fi
  fi;
  aside[ib] = 0
}

/* ------------------------------------------------------------------ checks */
/* nobody that was asked first and is alive, listening and un-lapsed may be overtaken by a grant to a */
inline fifo(a) {
  m = 1;
  do :: m <= NI ->
        if :: C_FIFO && WAITING(a) && m != a && ft[m] > 0 && !ex[m] && !over[m] && L != m &&
              (ph[CLI(m)] == ASK || ph[CLI(m)] == WAIT) && CUR(CLI(m)) == m &&
              !gapb[PO(m)] && !lap[PO(m)] && !lostp[m] && !lq[m] && !(bef[a] & (1 << m)) ->
              assert(ft[a] > 0 && ft[a] < ft[m])               /* I4 */
           :: else fi;
        m++
     :: else -> break od
}
/* a lapsed waiter is excused until it has asked again; a place it never knew of is gone */
inline forfeit(a) { ex[a] = 1; if :: ctk[a] == 0 && ft[a] > 0 -> f0[a] = ft[a]; ft[a] = 0 :: else fi }
inline setL(a, cl) {
  fifo(a);
  L = a; claim = cl; F++; Fown = a; hst = cl; hid = (cl -> a : 0);
  qhas(a); assert(!fnd)                                        /* never holder and waiter at once */
}
inline believe(c, t) {
  if :: t <= exempt -> bel[c] = 2
     :: else ->
        bel[c] = 1;
        m = 0;
        do :: m < NC ->
              if :: C_I1 && m != c && bel[m] == 1 ->
                    if :: PAUSE == 1 -> shared = 1 :: else -> assert(false) fi   /* I1 */
                 :: else fi;
              m++
           :: else -> break od;
        if :: C_I1 && fbel -> if :: PAUSE == 1 -> shared = 1 :: else -> assert(false) fi :: else fi;
        assert(t > lastTok || (t == lastTok && lastOwn == CUR(c)));                 /* I2 */
        lastTok = t; lastOwn = CUR(c)
  fi;
  tok[c] = t; printf("   c%d believes: token %d\n", c, t)
}
/* is an ending request or a grant message for id a still under way? */
inline pending(a) {
  fnd = 0; u = CLI(a); j = 0;
  do :: j < cn[u].n ->
        if :: cn[u].id[j] == a && cn[u].ty[j] == END && !cn[u].st[j] -> fnd = 1 :: else fi; j++
     :: else -> break od;
  if :: sId == a && sTy == END -> fnd = 1 :: else fi
}
inline residue() {
  m = 1;
  do :: m <= NI ->
        if :: over[m] && ph[CLI(m)] != DEAD ->
              if :: L == m && !claim -> pending(m); assert(fnd || !C_LEAK) :: else fi;   /* I5/I6: nobody will ever release it */
              qhas(m);
              if :: fnd -> pending(m); assert(fnd || !C_RES) :: else fi                  /* I5: residue in the queue */
           :: else fi;
        m++
     :: else -> break od
}

/* ------------------------------------------------------------------ scripts */
inline park(p) {
  parked[p] = 1; il[p] = 0; dec[p] = 0; aside[p] = 0; printf("   inbox of p%d is parked\n", p);
  if :: !PARKKEEP -> x = 0; do :: x < qn -> if :: PO(q[x]) == p -> o = q[x]; qdel(o) :: else -> x++ fi :: else -> break od; x = 0 :: else fi
}
/* the claim of the last holder lapsed unconfirmed: its process is dead or frozen, but not that of the asker */
inline lapsed(self) {
  if :: hst == 1 && LAPSEEND && (self == 0 || OWNPARK || PO(hid) != PO(self)) ->
        ib = PO(hid); hst = 0; hid = 0; count(ib);
        if :: LAPSEKEEP || w > 0 -> park(ib) :: else fi; w = 0
     :: else fi
}
inline isFirst(k) {            /* -> fnd: no earlier waiter in the queue is of the inbox of q[k] */
  fnd = 1; j = 0;
  do :: j < k -> if :: PO(q[j]) == PO(q[k]) -> fnd = 0 :: else fi; j++ :: else -> break od
}
/* L is free: the inboxes in the order of their first waiters -> g: the next waiter, or sr: the search is not over.
   uh: the first one without a subscriber; w: the second round, over the inboxes that are set aside */
inline search(self) {
  g = 0; i = 0; sr = 0; uh = 0; lk = 0; w = 0;
  do :: g == 0 && lk < BOUND && i < qn ->
        o = q[i]; ib = PO(o); isFirst(i);
        if :: parked[ib] || !fnd || aside[ib] != w -> i++
           :: else ->
              lk++;
              if :: !il[ib] -> park(ib); if :: PARKKEEP -> i++ :: else fi
                 :: il[ib] && w == 0 && o != self && SKIP != 2 && !sub[ib] && (SUBMODE != 3 || dec[ib]) ->
                    if :: SKIP == 0 -> qdel(o) :: else -> if :: ASIDE -> aside[ib] = 1 :: !ASIDE && uh == 0 -> uh = o :: else fi; i++ fi
                 :: else -> g = o fi
        fi
     :: g == 0 && lk < BOUND && i >= qn && ASIDE && UNHEARD && w == 0 -> w = 1; i = 0
     :: else -> break od;
  w = 0;
  if :: g == 0 && UNHEARD && SKIP == 1 -> g = uh :: else fi;
  if :: g == 0 && uh == 0 && lk == BOUND && SEARCHING -> sr = 1; printf("   searching\n") :: else fi
}
/* the hash is deleted with the last member of the queue, and with it the last ticket */
inline unused() {
  anyParked();
  if :: qn == 0 && !fnd && (!HOLDKEEP || hst != 1) ->
        nt = 0; m = 1;
        do :: m <= NI -> if :: ft[m] > 0 && (ex[m] || (L == m && hst != 1)) && !over[m] && !clm[m] -> lostp[m] = 1 :: else fi; m++ :: else -> break od;
        hst = 0; hid = 0
     :: else fi
}
#define REFUSED(a) (tomb[a] || (TOMB == 4 && Fown == a && L != a))
/* each script says whether a next waiter is wanted: nx is 1 for an ask, 2 for a release, 3 for a leave that finds the
   lock free; or names the waiter g that gets the lock */
inline sAcquire(a, wt, listening, carried) {
  if :: L == a -> rr = R_GR; if :: hst == 1 && hid == a -> hst = 2 :: else fi      /* mine already */
     :: L != a && REFUSED(a) -> rr = R_GONE
     :: else ->
        anyParked();
        if :: L == 0 && ((qn == 0 && !fnd && hst == 0) || BARGE) -> if :: BARGE -> qdel(a) :: else fi; g = a; rr = R_GR
           :: else ->
              if :: wt -> enter(a, listening, carried) :: else fi;
              if :: L == 0 -> nx = 1; sf = a :: else -> rr = (wt -> R_Q : R_HELD) fi
        fi
  fi
}
inline sEnd(a, mark, guard) {    /* release and cancel */
  if :: RELQ -> qdel(a) :: else fi;
  if :: mark -> tomb[a] = 1 :: else fi;
  rr = R_OK;
  if :: L == a && (!RELTOK || guard == 0 || guard == F) -> L = 0; claim = 0; hst = 0; hid = 0; nx = 2
     :: L == 0 -> nx = 3
     :: else fi
}
inline next() {                /* L is free: the first live waiter gets it */
  if :: nx != 2 -> lapsed(sf) :: else fi;
  search(sf);
  if :: sr -> rr = R_SRCH
     :: !sr && g == 0 && nx == 1 -> g = sf; rr = R_GR            /* nobody waits */
     :: !sr && g == 0 && nx != 1 -> hst = 0; hid = 0
     :: !sr && g > 0 && nx == 1 -> rr = (g == sf -> R_GR : rc)
     :: else fi
}
inline sRenew(a) {
  if :: L == a -> claim = 0; rr = R_OK; assert(!over[a]);       /* a renewal must not revive an abandoned lease */
        if :: hst == 1 && hid == a -> hst = 2 :: else fi
     :: else -> rr = R_LOST fi
}
inline sSteal(a, guard) {
  if :: L == a -> rr = R_GR
     :: L != a && REFUSED(a) -> rr = R_GONE
     :: else ->
        if :: L != 0 && (!STEALCAS || guard == F) ->
              exempt = F;
              if :: L != FOR && bel[CLI(L)] == 1 && CUR(CLI(L)) == L -> bel[CLI(L)] = 2 :: else fi;
              fbel = 0;
              nsteal++; assert(nsteal <= 1);                    /* one steal evicts one lease */
              hst = 0; hid = 0;
              qdel(a); L = 0; F++; L = a; claim = 0; Fown = a; rr = R_GR
           :: L != 0 && STEALCAS && guard != F -> rr = R_HELD
           :: else -> qdel(a); L = 0; F++; L = a; claim = 0; Fown = a; hst = 0; hid = 0; rr = R_GR
        fi
  fi
}
inline doExec(pt, pa, ptomb, pguard, plis, pcar) {
  g = 0; sr = 0; nx = 0; sf = 0; rc = (pt == ACQ -> R_Q : R_HELD);
  if :: pt == ACQ || pt == TRY -> sAcquire(pa, pt == ACQ, plis, pcar)
     :: pt == END -> sEnd(pa, ptomb, pguard)
     :: pt == REN -> sRenew(pa)
     :: pt == STL -> sSteal(pa, pguard)
  fi;
  if :: nx > 0 -> next() :: else fi;
  if :: g > 0 ->
        qdel(g);
        if :: nx > 0 && g != sf -> nx = 1 :: else -> nx = 0 fi;
        setL(g, nx);
        if :: nx == 1 && sub[PO(g)] && len(inbox[CLI(g)]) < 2 -> inbox[CLI(g)]!g,F; printf("   grant id%d token %d -> PUBLISH to c%d\n", g, F, CLI(g))
           :: nx == 1 && !(sub[PO(g)] && len(inbox[CLI(g)]) < 2) -> printf("   grant id%d token %d, nobody listens\n", g, F)
           :: else fi
     :: else fi;
  tidy();
  if :: pt == END && !ptomb && g == 0 -> unused() :: else fi;
  sr = 0; uh = 0; lk = 0; ib = 0; g = 0; o = 0; i = 0; j = 0; m = 0; fnd = 0; nx = 0; sf = 0; rc = 0
}

/* ------------------------------------------------------------------ connection */
inline send(c, t, a, want, tmb, gd) {
  x = cn[c].n;
  cn[c].ty[x] = t; cn[c].id[x] = a; cn[c].st[x] = 0; cn[c].w[x] = want; cn[c].tb[x] = tmb;
  cn[c].rv[x] = 0; cn[c].rt[x] = 0; cn[c].gt[x] = gd; cn[c].li[x] = lis[PROC(c)];
  cn[c].tk[x] = (ctk[a] > 0);
  printf("c%d sends %d(id%d)\n", c, cn[c].ty[x], cn[c].id[x]);
  cn[c].n++; x = 0
}
inline clr(c, p) {
  cn[c].ty[p] = 0; cn[c].id[p] = 0; cn[c].st[p] = 0; cn[c].w[p] = 0; cn[c].tb[p] = 0;
  cn[c].rv[p] = 0; cn[c].rt[p] = 0; cn[c].gt[p] = 0; cn[c].li[p] = 0; cn[c].tk[p] = 0; cn[c].ct[p] = 0; cn[c].oh[p] = 0
}
inline pop(c) {
  x = 0;
  do :: x+1 < cn[c].n ->
        cn[c].ty[x] = cn[c].ty[x+1]; cn[c].id[x] = cn[c].id[x+1]; cn[c].st[x] = cn[c].st[x+1];
        cn[c].w[x] = cn[c].w[x+1]; cn[c].tb[x] = cn[c].tb[x+1]; cn[c].rv[x] = cn[c].rv[x+1];
        cn[c].rt[x] = cn[c].rt[x+1]; cn[c].gt[x] = cn[c].gt[x+1]; cn[c].li[x] = cn[c].li[x+1]; cn[c].tk[x] = cn[c].tk[x+1];
        cn[c].ct[x] = cn[c].ct[x+1]; cn[c].oh[x] = cn[c].oh[x+1];
        x++
     :: else -> break od;
  cn[c].n--; y = cn[c].n; clr(c, y); x = 0
}
/* stop waiting for acquire answers (they may still come) */
inline unwant(c) {
  x = 0;
  do :: x < cn[c].n ->
        if :: cn[c].ty[x] == ACQ || cn[c].ty[x] == TRY || cn[c].ty[x] == STL ->
              cn[c].w[x] = 0; dirty[c] = 1                      /* a copy is under way when the id is ended */
           :: else fi; x++
     :: else -> break od;
  aw[c] = 0; need[c] = 0; x = 0
}
#define TFLAG(c,cancel) ((TOMB == 3) || ((cancel) && (TOMB == 1 || TOMB == 2)) || ((TOMB == 2 || TOMB == 5) && dirty[c]))
/* the attempt ends: tell the server, until it confirms */
inline endIt(c, cancel) {
  unwant(c);
  if :: !SRCHCLEAN && srch[c] && !dirty[c] -> nextTry(c) :: else ->
  ph[c] = CLEAN; bel[c] = 0; claimed[c] = 0;
  send(c, END, CUR(c), 1, TFLAG(c,cancel), ((cancel) -> 0 : tok[c]));
  cw[c] = 1
  fi
}
inline nextTry(c) {
  over[CUR(c)] = 1; bel[c] = 0; claimed[c] = 0; tok[c] = 0;
  kk[c]++; dirty[c] = 0; first[c] = 0; multi[c] = 0; need[c] = 0; srch[c] = 0;
  ph[c] = (kk[c] < KOF(c) -> IDLE : DONE);
  residue();
  if :: ph[c] == DONE -> kk[c] = KOF(c)-1 :: else fi                 /* CUR stays in range */
}
#define HASNEW(c) (cn[c].n > 0 && !cn[c].st[cn[c].n-1])

/* what the client can know: an acquire was under way when the connection went down */
inline keep(c) {
  x = 0;
  do :: x < cn[c].n ->
        if :: cn[c].ty[x] == ACQ || cn[c].ty[x] == TRY || cn[c].ty[x] == STL -> dirty[c] = 1 :: else fi; x++
     :: else -> break od; x = 0
}
inline stale(c) {
  x = 0;
  do :: cn[c].st[x] -> x++ :: else -> break od;
  sTy = cn[c].ty[x]; sId = cn[c].id[x]; sTb = cn[c].tb[x]; sGt = cn[c].gt[x]; x = 0
}

inline execOne(c) {            /* the server runs the next request of a connection */
  x = 0;
  do :: cn[c].st[x] -> x++ :: else -> break od;
  y = x;
  doExec(cn[c].ty[y], cn[c].id[y], cn[c].tb[y], cn[c].gt[y], cn[c].li[y], cn[c].tk[y]);
  cn[c].rv[y] = rr; cn[c].rt[y] = (rr == R_Q -> qt[cn[c].id[y]] : F); cn[c].st[y] = 1;
  if :: rr == R_Q ->
        count(PROC(c)); cn[c].ct[y] = w; w = 0;
        if :: hst > 0 && NAME >= hst && L == hid && PO(hid) == PROC(c) -> cn[c].oh[y] = hid :: else fi
     :: rr == R_GR && GRCOUNT && cn[c].ty[y] != STL -> count(PROC(c)); cn[c].ct[y] = w; w = 0
     :: else fi;
  PR6("server runs %d(c%d id%d) -> reply %d; L=%d F=%d\n", cn[c].ty[y], c, cn[c].id[y], rr, L, F);
  if :: ph[c] == DEAD && y == 0 -> pop(c) :: else fi;
  residue(); x = 0; y = 0; rr = 0; w = 0; u = 0; fnd = 0; j = 0; m = 0
}
proctype Srv(byte c) {
end: do
  :: d_step { HASNEW(c) -> execOne(c) }
#define FIRSTACQ(p) (cn[c].n > (p) && !cn[c].st[p] && (cn[c].ty[p] == ACQ || cn[c].ty[p] == TRY))
#if B_NOSCR                                                      /* EVALSHA answered NOSCRIPT */
  :: d_step { b_nos > 0 && FIRSTACQ(0) -> b_nos--; printf("c%d: EVALSHA answered NOSCRIPT\n", c); cn[c].rv[0] = R_NOSCR; cn[c].st[0] = 1 }
  :: d_step { b_nos > 0 && FIRSTACQ(1) && cn[c].st[0] -> b_nos--; printf("c%d: EVALSHA answered NOSCRIPT\n", c); cn[c].rv[1] = R_NOSCR; cn[c].st[1] = 1 }
#endif
#if B_ERR                                                        /* READONLY, OOM, LOADING: this copy wrote nothing */
  :: d_step { b_err > 0 && FIRSTACQ(0) -> b_err--; printf("c%d: error reply, this copy wrote nothing\n", c); cn[c].rv[0] = R_ERR; cn[c].st[0] = 1 }
  :: d_step { b_err > 0 && FIRSTACQ(1) && cn[c].st[0] -> b_err--; printf("c%d: error reply, this copy wrote nothing\n", c); cn[c].rv[1] = R_ERR; cn[c].st[1] = 1 }
#endif
  od
}

/* first request of an attempt, or re-ask */
inline ask(c) {
  if :: c == STEALC -> send(c, STL, CUR(c), 1, 0, sg[c])         /* decided against the token just seen; a retry keeps it */
     :: c != STEALC && c == TRYC -> send(c, TRY, CUR(c), 1, 0, 0)
     :: c != STEALC && c != TRYC && SUBMODE == 1 && !lis[PROC(c)] -> send(c, TRY, CUR(c), 1, 0, 0)
     :: else -> send(c, ACQ, CUR(c), 1, 0, 0) fi;
  if :: !first[c] -> first[c] = 1 :: else -> multi[c] = 1 fi;
  aw[c] = 1; need[c] = 0
}
/* a queued answer tells how many waiters of this process the server knows, and which of them holds the lock */
inline compare(c) {
  w = 0; u = 0;                                                 /* w: the waiters here; u: the named holder is one of them */
  if :: ro > 0 && CUR(CLI(ro)) == ro && LIVE(CLI(ro)) ->
        need[CLI(ro)] = 1; if :: ph[CLI(ro)] == WAIT -> u = 1 :: else fi
     :: ro > 0 && !(CUR(CLI(ro)) == ro && LIVE(CLI(ro))) ->
        if :: UNKNOWN && cn[c].n < CAP && !(CUR(CLI(ro)) == ro && ph[CLI(ro)] == HOLD) ->
              printf("c%d leaves for id%d, which nobody here knows\n", c, ro); send(c, END, ro, 0, (TOMB > 0 && TOMB != 4), 0)
           :: else fi
     :: else fi;
  m = 0;
  do :: m < NC -> if :: PROC(m) == PROC(c) && ph[m] == WAIT -> w++ :: else fi; m++ :: else -> break od;
  if :: (COUNT == 1 && rc + u < w) || (COUNT == 2 && rc + 1 < w) ->
        printf("c%d: the server knows %d of %d waiters here; all ask\n", c, rc, w); m = 0;
        do :: m < NC -> if :: m != c && PROC(m) == PROC(c) && ph[m] == WAIT -> need[m] = 1 :: else fi; m++ :: else -> break od
     :: else fi;
  w = 0; u = 0
}
/* a granted answer tells how many of the others the server knows */
inline compareOthers(c) {
  w = 0; m = 0;
  do :: m < NC -> if :: m != c && PROC(m) == PROC(c) && ph[m] == WAIT -> w++ :: else fi; m++ :: else -> break od;
  if :: GRCOUNT && rc < w -> printf("c%d: the server knows %d of %d others here; all ask\n", c, rc, w); m = 0;
        do :: m < NC -> if :: m != c && PROC(m) == PROC(c) && ph[m] == WAIT -> need[m] = 1 :: else fi; m++ :: else -> break od
     :: else fi;
  w = 0
}
inline late(c) {
  if :: LATE == 0 -> send(c, END, CUR(c), 0, 0, 0); ph[c] = ASK  /* "release it, go on" */
     :: LATE == 1 -> ph[c] = ASK                                 /* re-ask follows */
     :: LATE == 2 -> endIt(c, 1) fi
}
/* a grant with token t became known; isMsg: by the inbox */
inline granted(c, t, isMsg) {
  if :: t > expTok[CUR(c)] -> believe(c, t); ph[c] = HOLD; claimed[c] = isMsg; aw[c] = 0; need[c] = 0
     :: else -> late(c) fi
}
#define ISGR(c) (cn[c].rv[0] == R_GR && cn[c].w[0])

proctype Client(byte c) {
  byte a; byte t;
end: do
  :: atomic {
  if
  :: d_step { ph[c] == IDLE && cn[c].n < CAP ->
       ph[c] = ASK; over[CUR(c)] = 0; if :: c == STEALC -> sg[c] = F :: else fi;
       if :: REUSE -> ft[CUR(c)] = 0; ex[CUR(c)] = 0; lq[CUR(c)] = 0; bef[CUR(c)] = 0; ctk[CUR(c)] = 0; clm[CUR(c)] = 0; lostp[CUR(c)] = 0 :: else fi;
       ask(c) }
  /* an answer arrives */
  :: d_step { cn[c].n > 0 && cn[c].st[0] && ph[c] != DEAD ->
       a = cn[c].id[0]; t = cn[c].ty[0]; rr = cn[c].rv[0]; g = cn[c].rt[0]; fnd = cn[c].w[0]; o = cn[c].tb[0]; rc = cn[c].ct[0]; ro = cn[c].oh[0];
       printf("c%d gets reply %d to %d(id%d), wanted=%d\n", c, rr, t, a, fnd);
       pop(c);
       if :: rr == R_NOSCR && cn[c].n < CAP ->                   /* the adapter sends EVAL instead */
             if :: (FBGUARD && !fnd) -> skip
                :: else -> send(c, t, a, fnd, 0, 0) fi
          :: rr == R_NOSCR && cn[c].n >= CAP -> if :: fnd -> aw[c] = 0; dirty[c] = 1 :: else fi
          :: rr != R_NOSCR && fnd && (t == ACQ || t == TRY || t == STL) && (ph[c] == ASK || ph[c] == WAIT) && a == CUR(c) ->
             aw[c] = 0;
             if :: rr == R_GR ->
                   if :: t != STL -> compareOthers(c) :: else fi;
                   granted(c, g, 0)
                :: rr == R_Q ->
                   ph[c] = WAIT;
                   if :: ctk[a] == 0 -> ctk[a] = g :: else fi;
                   if :: !lis[PROC(c)] -> lis[PROC(c)] = 1; sub[PROC(c)] = 1; if :: !REASK -> need[c] = 1 :: else fi :: else fi;
                   srch[c] = 0;
                   if :: ACTS || FORE(c) -> compare(c) :: else fi
                :: rr == R_SRCH -> if :: ph[c] == WAIT -> need[c] = 1 :: else -> srch[c] = (!SRCHCLEAN && !multi[c]) fi     /* asks again */
                :: rr == R_HELD ->
                   if :: c != TRYC && c != STEALC -> lis[PROC(c)] = 1; sub[PROC(c)] = 1  /* SUBMODE 1: now subscribe, then ask in earnest */
                      :: (c == TRYC || c == STEALC) && (!HELDNO || (!dirty[c] && !multi[c])) -> nextTry(c)
                      :: else -> endIt(c, 1) fi
                :: rr == R_ERR ->
                   if :: (DEFNO && dirty[c]) || (DEFNO == 1 && multi[c]) -> endIt(c, 1)
                      :: else -> nextTry(c) fi
                :: rr == R_GONE -> assert(false)                 /* a live attempt must never meet its own tombstone */
             fi
          :: rr != R_NOSCR && fnd && t == END && ph[c] == CLEAN && a == CUR(c) -> cw[c] = 0; if :: rr == R_SRCH && !GIVEUP :: else -> nextTry(c) fi
          :: rr != R_NOSCR && fnd && t == REN && rr == R_LOST && ph[c] == HOLD && a == CUR(c) -> bel[c] = 0
          :: else
       fi; a = 0; t = 0; rr = 0; g = 0; fnd = 0; o = 0; i = 0; j = 0; m = 0; rc = 0; ro = 0 }
#if B_LATE
  :: d_step { cn[c].n > 0 && cn[c].st[0] && ph[c] != DEAD && b_late > 0 && ISGR(c) && cn[c].n < CAP && (ph[c] == ASK || ph[c] == WAIT) && cn[c].id[0] == CUR(c) ->
       b_late--; printf("c%d: granted reply is past its deadline\n", c); pop(c); aw[c] = 0; late(c) }
  :: d_step { b_late > 0 && cn[c].n < CAP && (ph[c] == ASK || ph[c] == WAIT) && inbox[c]?[eval(CUR(c)),_] ->
       inbox[c]?a,t; b_late--; printf("c%d: grant message is past its deadline\n", c); late(c); a = 0; t = 0 }
#endif
  /* a grant message arrives */
  :: d_step { nempty(inbox[c]) && ph[c] != DEAD && cn[c].n < CAP ->
       inbox[c]?a,t; printf("c%d gets grant message id%d token %d\n", c, a, t);
       if :: a == CUR(c) && (ph[c] == ASK || ph[c] == WAIT) ->
             if :: t > expTok[a] -> believe(c, t); ph[c] = HOLD; claimed[c] = 1;
                   unwant(c)
                :: else -> late(c) fi
          :: a == CUR(c) && ph[c] == HOLD
          :: else -> if :: HANDON -> send(c, END, a, 0, (TOMB > 0 && TOMB != 4), 0) :: else fi
       fi; a = 0; t = 0 }
  /* fallback: ask again (also the retry after an error) */
  :: d_step { ((ph[c] == ASK) || (ph[c] == WAIT && (need[c] || (REASK && FORE(c))))) && !aw[c] && cn[c].n < CAP ->
       ask(c) }
#if B_GAP
  :: d_step { ph[c] != DEAD && ph[c] != DONE && lis[PROC(c)] && !sub[PROC(c)] ->        /* resubscribed; one waiter asks later */
       sub[PROC(c)] = 1; gapb[PROC(c)] = 0; printf("c%d resubscribed\n", c);
       if :: ASIDE -> lap[PROC(c)] = 1 :: else fi;
       if :: !REASK -> m = 0; do :: m < NC -> if :: PROC(m) == PROC(c) && ph[m] == WAIT && FORE(m) -> need[m] = 1 :: else fi; m++ :: else -> break od; m = 0 :: else fi }
#endif
#if B_TIMEOUT
  :: d_step { (ph[c] == ASK || ph[c] == WAIT) && aw[c] && b_to > 0 && cn[c].n < CAP -> b_to--; printf("c%d: command time-out\n", c); unwant(c); dirty[c] = 1; ask(c) }
#endif
#if B_ABORT
  :: d_step { (ph[c] == ASK || ph[c] == WAIT) && b_ab > 0 && cn[c].n < CAP -> b_ab--; printf("c%d aborts\n", c); endIt(c, 1) }
#if CLOSEFIRST && SHARE == 0
  :: d_step { (ph[c] == ASK || ph[c] == WAIT) && b_ab > 0 && cn[c].n < CAP && kk[c] == KOF(c)-1 ->              /* dispose */
       b_ab--; printf("c%d disposes\n", c); endIt(c, 1); sub[PROC(c)] = 0; lis[PROC(c)] = 0;
       do :: nempty(inbox[c]) -> inbox[c]?a,t :: else -> break od; a = 0; t = 0 }
#endif
#endif
  /* hold */
  :: d_step { ph[c] == HOLD && bel[c] > 0 && claimed[c] && cn[c].n < CAP -> claimed[c] = 0; send(c, REN, CUR(c), 1, 0, 0) }
  :: d_step { ph[c] == HOLD && bel[c] > 0 && cn[c].n < CAP ->
       printf("c%d releases\n", c);
       if :: PAUSE -> assert(bel[c] != 1 || tok[c] >= resTok || shared) :: else fi;
       endIt(c, 0) }
#if PAUSE
  :: d_step { ph[c] == HOLD && bel[c] == 1 && tok[c] > resTok -> resTok = tok[c] }   /* a write that the resource accepts */
#endif
  :: d_step { ph[c] == HOLD && bel[c] == 0 && cn[c].n < CAP ->                        /* lost */
       printf("c%d: lease lost\n", c);
       if :: LOSTCLEAN -> endIt(c, 0) :: else -> unwant(c); nextTry(c) fi }
  /* clean-up is repeated until confirmed */
  :: d_step { ph[c] == CLEAN && !cw[c] && cn[c].n < CAP -> send(c, END, CUR(c), 1, TFLAG(c,1), 0); cw[c] = 1 }
#if B_GIVEUP
  :: d_step { ph[c] == CLEAN && b_gu > 0 -> b_gu--; printf("c%d gives up its clean-up\n", c); cw[c] = 0; nextTry(c) }
#endif
#if B_CRASH
  :: d_step { ph[c] != DEAD && ph[c] != DONE && b_cr > 0 ->
       b_cr--; sub[PROC(c)] = 0; lis[PROC(c)] = 0; o = 0;
       do :: o < NC && PROC(o) == PROC(c) ->
             printf("c%d crashes\n", o); ph[o] = DEAD; bel[o] = 0; aw[o] = 0; cw[o] = 0; claimed[o] = 0; dirty[o] = 0; need[o] = 0; srch[o] = 0;
             do :: nempty(inbox[o]) -> inbox[o]?a,t :: else -> break od;
             do :: cn[o].n > 0 && cn[o].st[0] -> pop(o) :: else -> break od; o++
          :: o < NC && PROC(o) != PROC(c) -> o++
          :: else -> break od; a = 0; t = 0; o = 0 }
#endif
  fi;
#if SYNC
  d_step { do :: HASNEW(c) -> execOne(c) :: else -> break od }
#endif
  }
  od
}

inline loseQueue() {
  do :: qn > 0 -> o = q[0]; qdel(o) :: else -> break od;
  m = 0; do :: m < NP -> parked[m] = 0; il[m] = 0; dec[m] = 0; aside[m] = 0; m++ :: else -> break od;
  m = 1; do :: m <= NI -> tomb[m] = 0; m++ :: else -> break od;
  hst = 0; hid = 0; nt = 0; o = 0; j = 0;
  m = 1; do :: m <= NI -> if :: ft[m] > 0 -> forfeit(m); ex[m] = 0; lq[m] = 1 :: else fi; m++ :: else -> break od; m = 0
}
#define CLAIMLIVE (STRICT && hst == 1 && ph[CLI(L)] != DEAD)
#define LIVEHOLD (L != FOR && ph[CLI(L)] != DEAD && !over[L] && CUR(CLI(L)) == L && (!SLOWEND || ph[CLI(L)] != CLEAN))

proctype Env() {
  byte c; byte a; byte t;
end: do
  /* TTL runs out. By the constraint the believer has stopped believing no later than this. */
  :: d_step { L > 0 && L != FOR && (b_exp > 0 || !(LIVEHOLD || CLAIMLIVE)) ->
       printf("TTL of id%d runs out\n", L);
       if :: LIVEHOLD -> b_exp-- :: else fi;
       a = CLI(L);
       if :: !PAUSE && bel[a] > 0 && CUR(a) == L && tok[a] == F -> bel[a] = 0 :: else fi;
       if :: hst == 1 && hid == L -> lap[PROC(a)] = 1; clm[L] = 1 :: else -> hst = 0; hid = 0 fi;
       expTok[L] = F; forfeit(L); L = 0; claim = 0; a = 0 }
  :: d_step { L == FOR -> printf("foreign holder is gone\n"); L = 0; fbel = 0 }                       /* foreign holder deletes or its TTL ends */
#if B_FOREIGN
  :: d_step { L == 0 && b_for > 0 -> b_for--; printf("foreign SET NX\n"); L = FOR; claim = 0; fbel = 1;
       a = 0; do :: a < NC -> assert(!C_I1 || bel[a] != 1); a++ :: else -> break od; a = 0 }
#endif
  /* a lease that was removed by a script, not by time, still ends for its believer */
  :: d_step { bel[0] > 0 && L != CUR(0) -> bel[0] = 0 }
  :: d_step { bel[1] > 0 && L != CUR(1) -> bel[1] = 0 }
#if NC > 2
  :: d_step { bel[2] > 0 && L != CUR(2) -> bel[2] = 0 }
#endif
#if NC > 3
  :: d_step { bel[3] > 0 && L != CUR(3) -> bel[3] = 0 }
#endif
  /* inbox leases of processes that no longer wait */
  :: d_step { il[0] && NOWAIT(0) -> il[0] = 0 }
#if NP > 1
  :: d_step { il[1] && NOWAIT(1) -> il[1] = 0 }
#endif
#if NP > 2
  :: d_step { il[2] && NOWAIT(2) -> il[2] = 0 }
#endif
#if NP > 3
  :: d_step { il[3] && NOWAIT(3) -> il[3] = 0 }
#endif
#if PARKDEAD
  /* an ask of any process sweeps: the inbox of the waiter at k */
#define PARKNOW(k) \
  :: d_step { qn > k && !il[PO(q[k])] && !parked[PO(q[k])] -> ib = PO(q[k]); park(ib); ib = 0 }
  PARKNOW(0)
  PARKNOW(1)
#if NI > 2
  PARKNOW(2)
#endif
#if NI > 3
  PARKNOW(3)
#endif
#endif
#if B_EARLY
  /* the client's deadline comes first: the server still holds for a moment (claim = about to run out) */
  :: d_step { b_early > 0 && L > 0 && L != FOR && bel[CLI(L)] > 0 && CUR(CLI(L)) == L -> b_early--; printf("deadline of id%d (client side)\n", L); bel[CLI(L)] = 0; claim = 1 }
#endif
#if B_LAPSE
  :: d_step { qn > 0 && b_lapse > 0 && il[PO(q[0])] && !NOWAIT(PO(q[0])) -> b_lapse--; printf("waiter leases of p%d lapse\n", PO(q[0])); il[PO(q[0])] = 0; lap[PO(q[0])] = 1 }
  :: d_step { qn > 1 && b_lapse > 0 && PO(q[1]) != PO(q[0]) && il[PO(q[1])] && !NOWAIT(PO(q[1])) -> b_lapse--; printf("waiter leases of p%d lapse\n", PO(q[1])); il[PO(q[1])] = 0; lap[PO(q[1])] = 1 }
#endif
#if B_SWEEP
  /* the first waiter of a parked inbox is swept; with the last one the inbox is forgotten */
#define SWEEP(p) \
  :: d_step { parked[p] && b_sweep > 0 -> \
       b_sweep--; printf("waiter of parked p%d is swept\n", p); o = 0; i = 0; \
       do :: i < qn && o == 0 -> if :: PO(q[i]) == p -> o = q[i] :: else fi; i++ :: else -> break od; \
       if :: o > 0 -> forfeit(o); qdel(o) :: else fi; tidy(); \
       count(p); if :: w == 0 -> parked[p] = 0; lap[p] = 1; m = 1; do :: m <= NI -> if :: PO(m) == p -> clm[m] = 0 :: else fi; m++ :: else -> break od :: else fi; w = 0; o = 0; i = 0; j = 0; m = 0 }
  SWEEP(0)
#if NP > 1
  SWEEP(1)
#endif
#if NP > 2
  SWEEP(2)
#endif
#endif
#if B_STALE
  :: d_step { sTy > 0 ->                                          /* the old connection's bytes arrive */
       a = sTy; t = sId; c = sTb; sTy = 0; sId = 0; sTb = 0; x = sGt; sGt = 0;
       old = 1; doExec(a, t, c, x, 0, 0); old = 0; printf("STALE COPY %d(id%d) runs; L=%d F=%d\n", a, t, L, F); residue(); rr = 0; a = 0; t = 0; c = 0; x = 0 }
#endif
#if B_FLUSH
  :: d_step { b_fl > 0 ->
       b_fl--; printf("FLUSHALL\n"); exempt = F; L = 0; claim = 0; fbel = 0;
       loseQueue(); Fown = 0;
       a = 0; do :: a < NC -> if :: bel[a] == 1 -> bel[a] = 2 :: else fi; a++ :: else -> break od; a = 0 }
#endif
#if B_QLOST
  :: d_step { b_ql > 0 && (qn > 0 || hst > 0) -> b_ql--; printf("FLUSH of the queue\n"); loseQueue() }
#endif
  od
}

inline replayAll(c) {          /* the connection of the whole process was cut */
  m = 0;
  do :: m < NC && PROC(m) == PROC(c) ->
        keep(m); x = 0;
        do :: x < cn[m].n -> cn[m].st[x] = 0; cn[m].rv[x] = 0; cn[m].rt[x] = 0; cn[m].ct[x] = 0; cn[m].oh[x] = 0; x++ :: else -> break od; m++
     :: m < NC && PROC(m) != PROC(c) -> m++
     :: else -> break od; x = 0; m = 0
}
inline failAll(c) {
  m = 0;
  do :: m < NC && PROC(m) == PROC(c) ->
        keep(m); if :: aw[m] && ph[m] == WAIT -> need[m] = 1 :: else fi;
        do :: cn[m].n > 0 -> pop(m) :: else -> break od; aw[m] = 0; cw[m] = 0; m++
     :: m < NC && PROC(m) != PROC(c) -> m++
     :: else -> break od; x = 0; m = 0
}
/* faults of one client's connections */
proctype Net(byte c) {
  byte a; byte t;
end: do
#if B_CUT
  :: d_step { cn[c].n > 0 && b_cut > 0 && ph[c] != DEAD ->        /* cut, library replays everything unanswered */
       b_cut--; printf("c%d: cut, unanswered requests replayed\n", c); replayAll(c) }
  :: d_step { cn[c].n > 0 && b_cut > 0 && ph[c] != DEAD ->        /* cut, requests fail with an ambiguous error */
       b_cut--; printf("c%d: cut, unanswered requests fail\n", c); failAll(c) }
#if B_STALE
  :: d_step { HASNEW(c) && b_cut > 0 && b_stale > 0 && sTy == 0 && ph[c] != DEAD ->
       b_cut--; b_stale--; stale(c); printf("c%d: cut; copy of %d(id%d) still under way; ", c, sTy, sId); replayAll(c) }
  :: d_step { HASNEW(c) && b_cut > 0 && b_stale > 0 && sTy == 0 && ph[c] != DEAD ->
       b_cut--; b_stale--; stale(c); printf("c%d: cut; copy of %d(id%d) still under way; ", c, sTy, sId); failAll(c) }
#endif
#endif
#if B_GAP
  :: d_step { sub[PROC(c)] && lis[PROC(c)] && b_gap > 0 && ph[c] != DEAD && LEAD(c) ->
       b_gap--; printf("c%d: subscriber gap\n", c); sub[PROC(c)] = 0; gapb[PROC(c)] = 1; m = 0;
       do :: m < NC -> if :: PROC(m) == PROC(c) -> do :: nempty(inbox[m]) -> inbox[m]?a,t :: else -> break od :: else fi; m++ :: else -> break od; a = 0; t = 0; m = 0 }
#endif
#if B_LOSE
  :: d_step { nempty(inbox[c]) && b_lose > 0 -> b_lose--; inbox[c]?a,t; printf("grant message to id%d lost\n", a); a = 0; t = 0 }
#endif
  :: d_step { false -> skip }
  od
}
init {
  atomic {
    x = 0;
    do :: x < NC -> run Client(x); run Srv(x); run Net(x); x++ :: else -> break od;
    run Env(); x = 0
  }
}
#define FIN(c) (ph[c] == DONE || ph[c] == DEAD)
#if NC == 2
ltl live { <> (FIN(0) && FIN(1)) }
#elif NC == 3
ltl live { <> (FIN(0) && FIN(1) && FIN(2)) }
#else
ltl live { <> (FIN(0) && FIN(1) && FIN(2) && FIN(3)) }
#endif
