/* Points from the distances between them: two exhaustive searches.

   TABLE. The distances are u classes of values, ascending, with how often each is left to be explained. A bucket of the
   range knows the first class in it, so that a value is looked up in one or two steps.

   LINE. The largest distance that is left must be that of a new point to one of the two outermost ones, at 0 and at D:
   the point is at d or at D − d (Skiena, Smith and Lemke 1990). A set that is its own mirror image so far needs only one of
   the two. After D − d was chosen, no further point is put at d while this distance is the largest, because the sets
   that have one were all seen before. So each solution is met once.

   CIRCLE. There is no largest arc. Two points are put down at an arc D; the others are among the places whose arcs to both
   are given. Each arc that is left must be that of two places, and the arc with the fewest pairs is tried, pair by pair.
   An arc with fewer pairs than it must have ends a branch. Where several pairs have this arc, those that were tried are
   ruled out beside later ones, so that no set is met twice. Points may coincide, where arcs of length 0 are left: a place
   with a point is a candidate then, too.

   Both are resumed: a call ends with a solution, with the end of its budget, or when everything was seen. */
#ifndef FASTQUAD_POINTS_H
#define FASTQUAD_POINTS_H

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { FQ_SEEN_ALL = 0, FQ_FOUND = 1, FQ_PAUSED = 2, FQ_NO_MEMORY = 3 };

/* Of how many arcs the pairs are counted where there are too many candidates to count them all; a guess. */
enum { FQ_SOME = 48 };

typedef struct {
    const double *value; /* u classes, ascending */
    int *left;           /* how often each is not explained yet */
    const int *bucket;   /* buckets + 1: the first class of each, and u */
    ptrdiff_t u, buckets;
    double scale, reach; /* buckets per unit of length; how far a value may be from its class */
    int doubt;           /* whether two classes were within reach of one value */
} fq_table;

/* The class of a value: the nearest within reach, one that is left if there is a choice; −1 for none. */
static ptrdiff_t fq_find(fq_table *t, double e) {
    double low = e - t->reach, high = e + t->reach;
    double place = low > 0 ? low * t->scale : 0;
    ptrdiff_t b, first, last, best;
    if (place >= (double)t->buckets) return -1;
    b = (ptrdiff_t)place;
    first = t->bucket[b], last = t->bucket[b + 1];
    while (first < last) { /* the first class of at least `low`; those of later buckets are */
        ptrdiff_t middle = (first + last) / 2;
        if (t->value[middle] < low) first = middle + 1;
        else last = middle;
    }
    if (first >= t->u || t->value[first] > high) return -1;
    for (best = first++; first < t->u && t->value[first] <= high; first++) {
        int nearer = fabs(t->value[first] - e) < fabs(t->value[best] - e);
        t->doubt = 1;
        if (t->left[first] > 0 && (nearer || t->left[best] <= 0)) best = first;
    }
    return best;
}

/* -- what is placed ------------------------------------------------------------------------------------------------ */

typedef struct {
    fq_table table;
    double length; /* D on a line; the circumference of a circle */
    int circle;
    int n, k, best; /* how many points there are, are placed, and were placed at most */
    double *x;      /* n */
    double *furthest; /* n: x where most were placed */
    int *took;      /* n(n − 1)/2: the class of the pair (k, j), j < k */
    long long nodes;
} fq_placed;

/* |p − q|, on a circle the shorter arc. */
static double fq_apart(const fq_placed *s, double p, double q) {
    double e = fabs(p - q);
    return s->circle && e > s->length - e ? s->length - e : e;
}

/* Take the distances of p to all that are placed; 0, and nothing taken, if one is not left. */
static int fq_take(fq_placed *s, double p) {
    int *took = s->took + (ptrdiff_t)s->k * (s->k - 1) / 2;
    for (int j = 0; j < s->k; j++) {
        ptrdiff_t c = fq_find(&s->table, fq_apart(s, p, s->x[j]));
        if (c < 0 || s->table.left[c] <= 0) {
            while (j-- > 0) s->table.left[took[j]]++;
            return 0;
        }
        s->table.left[c]--;
        took[j] = (int)c;
    }
    return 1;
}

static int fq_place(fq_placed *s, double p) {
    s->nodes++;
    if (!fq_take(s, p)) return 0;
    s->x[s->k++] = p;
    if (s->k > s->best) {
        s->best = s->k;
        memcpy(s->furthest, s->x, s->k * sizeof(double));
    }
    return 1;
}

static void fq_remove(fq_placed *s) {
    s->k--;
    const int *took = s->took + (ptrdiff_t)s->k * (s->k - 1) / 2;
    for (int j = 0; j < s->k; j++) s->table.left[took[j]]++;
}

/* -- the line ------------------------------------------------------------------------------------------------------ */

typedef struct {
    fq_placed placed;
    ptrdiff_t *top;   /* n + 1: the largest class that is left, with so many placed */
    int *option;      /* n + 1: the next choice: 0 at d, 1 at D − d, 2 none */
    int *chosen;      /* n: the choice that put this point there */
    int *only_left;   /* n + 1: whether no further point may be put at d */
    int *partner;     /* n: the point at the mirror image, itself in the middle, −1 for none */
    int unpaired;
} fq_line;

static void fq_line_drop(fq_line *s) {
    int j;
    fq_remove(&s->placed);
    j = s->partner[s->placed.k];
    if (j < 0) s->unpaired--;
    else if (j != s->placed.k) s->partner[j] = -1, s->unpaired++;
}

/* Note which point is the mirror image of the one that was placed last. */
static void fq_line_pair(fq_line *s) {
    fq_placed *at = &s->placed;
    int last = at->k - 1;
    double mirror = at->length - at->x[last], reach = at->table.reach;
    s->partner[last] = -1;
    if (fabs(mirror - at->x[last]) <= reach) {
        s->partner[last] = last;
        return;
    }
    for (int j = 0; j < last; j++)
        if (s->partner[j] < 0 && fabs(at->x[j] - mirror) <= reach) {
            s->partner[j] = last, s->partner[last] = j, s->unpaired--;
            return;
        }
    s->unpaired++;
}

/* Go on until a solution is found, `budget` choices were tried, or all were. */
static int fq_line_run(fq_line *s, long long budget) {
    fq_placed *at = &s->placed;
    const double *value = at->table.value;
    const int *left = at->table.left;
    if (at->k == at->n) fq_line_drop(s);
    for (;;) {
        int k = at->k, option = s->option[k];
        double d, p;
        if (option == 0) {
            ptrdiff_t top = s->top[k - 1];
            while (top > 0 && left[top] <= 0) top--;
            s->top[k] = top;
            s->only_left[k] = k > 2 && top == s->top[k - 1] && s->chosen[k - 1] == 1;
        }
        if (option == 2) {
            if (k == 2) return FQ_SEEN_ALL;
            fq_line_drop(s);
            continue;
        }
        if (budget-- <= 0) return FQ_PAUSED;
        s->option[k] = option + 1;
        d = value[s->top[k]];
        if (option == 0 && s->only_left[k]) continue;
        if (option == 1 && !s->only_left[k] && (s->unpaired == 0 || fabs(2 * d - at->length) <= at->table.reach)) continue;
        p = option == 0 ? d : at->length - d;
        if (!fq_place(at, p)) continue;
        s->chosen[k] = option;
        fq_line_pair(s);
        s->option[k + 1] = 0;
        if (at->k == at->n) return FQ_FOUND;
    }
}

/* -- the circle ---------------------------------------------------------------------------------------------------- */

typedef struct {
    int *alive, *a, *b; /* places that may hold a point; pairs to try, a = −1 if the other point is placed */
    ptrdiff_t n_alive, n_pairs, room, next;
    int placed; /* how many points were placed before */
    int several; /* whether more than one pair must have the arc */
} fq_level;

typedef struct {
    fq_placed placed;
    const double *place; /* candidates, ascending */
    const int *mirror;   /* the candidate at D − p */
    int *who;            /* n: the candidate at which each point is placed */
    int *since, *ruled;  /* for each candidate: how many points are there; whether no further one may be */
    int *pairs_of;       /* u: how many pairs each class has, zero between two uses */
    fq_level *level;     /* n + 1 */
    int depth, ready;    /* whether the pairs of the deepest level are listed */
    double few;          /* a level with at most so many candidates counts the pairs of every class, others of some */
} fq_circle;

static int fq_keep(fq_level *l, ptrdiff_t a, ptrdiff_t b) {
    if (l->n_pairs == l->room) {
        ptrdiff_t room = 2 * l->room + 64;
        int *more = realloc(l->a, room * sizeof(int));
        if (!more) return 0;
        l->a = more;
        more = realloc(l->b, room * sizeof(int));
        if (!more) return 0;
        l->b = more, l->room = room;
    }
    l->a[l->n_pairs] = (int)a, l->b[l->n_pairs++] = (int)b;
    return 1;
}

/* The pairs of candidates at an arc, by two fingers that go around; −1 without memory. Counted only unless `keep`. */
static ptrdiff_t fq_pairs_at(fq_circle *s, fq_level *l, double arc, int keep) {
    fq_placed *at = &s->placed;
    double reach = at->table.reach, half = at->length / 2;
    ptrdiff_t n = l->n_alive, j = 0, turned = 0, count = 0;
    for (ptrdiff_t i = 0; arc <= reach && i < n; i++) { /* two points at one place */
        count++;
        if (keep && !fq_keep(l, l->alive[i], l->alive[i])) return -1;
    }
    for (ptrdiff_t i = 0; arc > reach && i < n; i++) {
        double target = s->place[l->alive[i]] + arc;
        /* the first candidate, in the turn that `turned` counts, at target − reach or beyond */
        for (; turned < 2; j++) {
            if (j == n) {
                j = -1, turned++;
                continue;
            }
            if (s->place[l->alive[j]] + turned * at->length >= target - reach) break;
        }
        for (ptrdiff_t h = j, t = turned; t < 2; h++) {
            if (h == n) {
                h = -1, t++;
                continue;
            }
            if (s->place[l->alive[h]] + t * at->length > target + reach) break;
            if (h == i) continue;
            if (fabs(arc - half) <= reach && h < i) continue; /* met from the other side */
            count++;
            if (keep && !fq_keep(l, l->alive[i], l->alive[h])) return -1;
        }
    }
    for (int i = 0; i < at->k; i++)
        for (ptrdiff_t h = 0; h < n; h++)
            if (fabs(fq_apart(at, at->x[i], s->place[l->alive[h]]) - arc) <= reach) {
                count++;
                if (keep && !fq_keep(l, -1, l->alive[h])) return -1;
            }
    return count;
}

/* Whether points that coincide are left. */
static int fq_coincide(const fq_table *t) { return t->value[0] <= t->reach && t->left[0] > 0; }

/* The class with the fewest pairs beyond what it must have; −1 if one has too few. Where points may coincide one pair of
   places may be several pairs of points. */
static ptrdiff_t fq_scarcest(fq_circle *s, fq_level *l) {
    fq_placed *at = &s->placed;
    fq_table *t = &at->table;
    ptrdiff_t best = -1, fewest = 0, n = l->n_alive;
    int all = (double)n <= s->few, coincide = fq_coincide(t);
    if (all) {
        if (coincide) s->pairs_of[0] += (int)n;
        for (ptrdiff_t i = 0; i < n; i++) {
            double p = s->place[l->alive[i]];
            for (ptrdiff_t h = 0; h < i; h++) {
                ptrdiff_t c = fq_find(t, fq_apart(at, p, s->place[l->alive[h]]));
                if (c >= 0) s->pairs_of[c]++;
            }
            for (int h = 0; h < at->k; h++) {
                ptrdiff_t c = fq_find(t, fq_apart(at, p, at->x[h]));
                if (c >= 0) s->pairs_of[c]++;
            }
        }
    }
    /* Where all would take too long, of FQ_SOME classes, spread over the range, of one pair each if there are such. */
    ptrdiff_t single = 0, any = 0, seen = 0, step;
    for (ptrdiff_t c = 0; c < t->u; c++) single += t->left[c] == 1, any += t->left[c] > 0;
    step = all ? 1 : (single ? single : any) / FQ_SOME + 1;
    for (ptrdiff_t c = 0; c < t->u; c++) {
        ptrdiff_t pairs, spare;
        if (t->left[c] <= 0 || (!all && single && t->left[c] != 1) || seen++ % step) continue;
        pairs = all ? s->pairs_of[c] : fq_pairs_at(s, l, t->value[c], 0);
        spare = pairs - (coincide ? 1 : t->left[c]);
        if (spare < 0) {
            best = -1;
            break;
        }
        if (best < 0 || spare < fewest || (spare == fewest && t->left[c] < t->left[best])) best = c, fewest = spare;
    }
    if (all) memset(s->pairs_of, 0, t->u * sizeof(int));
    return best;
}

/* List the pairs to try at the deepest level; none if it is a dead end. */
static int fq_list(fq_circle *s) {
    fq_level *l = s->level + s->depth;
    fq_placed *at = &s->placed;
    ptrdiff_t c = -1, must;
    l->n_pairs = l->next = 0;
    if (l->n_alive >= at->n - at->k || (l->n_alive && fq_coincide(&at->table))) c = fq_scarcest(s, l);
    if (c < 0) return 1;
    if (fq_pairs_at(s, l, at->table.value[c], 1) < 0) return 0;
    must = at->table.left[c];
    l->several = must > 1;
    if (fq_coincide(&at->table)) must = 1;
    l->n_pairs = l->n_pairs < must ? 0 : l->n_pairs - must + 1; /* one of these must be a pair of points */
    return 1;
}

/* Whether the mirror image of this pair was tried before, which at the first level says the same. */
static int fq_mirrored(const fq_circle *s, const fq_level *l, ptrdiff_t e) {
    int a = l->a[e] < 0 ? -1 : s->mirror[l->a[e]], b = s->mirror[l->b[e]];
    for (ptrdiff_t i = 0; i < e; i++)
        if ((l->a[i] == a && l->b[i] == b) || (l->a[i] == b && l->b[i] == a)) return 1;
    return 0;
}

/* Mark the places that are ruled out by what was tried; 0 if what is placed was tried before. */
static int fq_rule_out(fq_circle *s, int value) {
    fq_placed *at = &s->placed;
    int fresh = 1;
    for (fq_level *l = s->level; l <= s->level + s->depth; l++) {
        if (!l->several) continue;
        for (int j = l->placed; j < at->k; j++) s->since[s->who[j]]++;
        for (ptrdiff_t e = 0; e + 1 < l->next; e++) {
            int a = l->a[e], b = l->b[e];
            int with_a = a < 0 || s->since[a] > (a == b), with_b = s->since[b] > 0;
            if (with_a && with_b) fresh = 0;
            else if (with_a || (a == b && with_b)) s->ruled[b] = value;
            else if (with_b) s->ruled[a] = value;
        }
        for (int j = l->placed; j < at->k; j++) s->since[s->who[j]] = 0;
    }
    return fresh;
}

/* The candidates of the next level: those whose arcs to all points are left. */
static int fq_descend(fq_circle *s) {
    fq_placed *at = &s->placed;
    fq_level *l = s->level + s->depth, *next = l + 1;
    int fresh = fq_rule_out(s, 1);
    free(next->alive);
    next->alive = malloc((l->n_alive + 1) * sizeof(int));
    if (!next->alive) return 0;
    next->n_alive = 0;
    for (ptrdiff_t i = 0; fresh && i < l->n_alive; i++) {
        int q = l->alive[i];
        if (s->ruled[q]) continue;
        if (!fq_take(at, s->place[q])) continue;
        const int *took = at->took + (ptrdiff_t)at->k * (at->k - 1) / 2;
        for (int j = 0; j < at->k; j++) at->table.left[took[j]]++;
        next->alive[next->n_alive++] = q;
    }
    fq_rule_out(s, 0);
    s->depth++, s->ready = 0;
    next->several = 0;
    next->placed = at->k;
    return 1;
}

static int fq_circle_run(fq_circle *s, long long budget) {
    fq_placed *at = &s->placed;
    for (;;) {
        fq_level *l = s->level + s->depth;
        int a, b;
        while (at->k > l->placed) fq_remove(at);
        if (budget-- <= 0) return FQ_PAUSED;
        if (!s->ready) {
            if (!fq_list(s)) return FQ_NO_MEMORY;
            s->ready = 1;
        }
        if (l->next >= l->n_pairs) {
            if (s->depth == 0) return FQ_SEEN_ALL;
            s->depth--;
            continue;
        }
        a = l->a[l->next], b = l->b[l->next++];
        if (s->depth == 0 && fq_mirrored(s, l, l->next - 1)) continue;
        if (at->k + 1 + (a >= 0) > at->n) continue;
        if (a >= 0 && !fq_place(at, s->place[a])) continue;
        if (!fq_place(at, s->place[b])) continue;
        if (a >= 0) s->who[at->k - 2] = a;
        s->who[at->k - 1] = b;
        if (at->k == at->n) return FQ_FOUND;
        if (!fq_descend(s)) return FQ_NO_MEMORY;
    }
}

#endif
