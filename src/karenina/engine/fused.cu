// Branch and bound on a GPU, all queries at once: what explore.py, tighten_box.py, box.py, lines.py and climb.py do for
// one query on the CPU. Compiled at run time for one architecture by kernels.py, which prepends the sizes:
//   INPUTS, OUTPUTS (of one network), HIDDEN (layers), SIZES {inputs, hidden ..., outputs}, STACK (networks of a query),
//   SINGLE (hidden neurons of one network), WEIGHTS (of one network), WIDEST, CONSTRAINTS, SMOOTH (whether some activation
//   is), STEPS, STARTS, ASCENT.
// One warp has one box. EACH shares a loop among its lanes; SYNC makes what they wrote visible to each other. With HOST
// defined it is plain C++ for a warp of one lane, so that it can be tested where there is no GPU. Each kernel is compiled by
// itself: ONLY_plant, say, keeps the other large ones out of the text.
//
// Nothing depends on the order in which warps run: maxima are exact, and survivors are kept in the order of their parents.

#ifdef HOST
#include <cmath>
using std::isfinite;
using std::isnan;
#define DEVICE static inline
#define APART static  // large, and called at more than one place: not inlined
#define GLOBAL extern "C" void
#define LANE 0
#define EACH(i, n) for (int i = 0; i < (n); i++)
#define SYNC
DEVICE double sum(double x) { return x; }
DEVICE void raise_to(double* place, double value) { if (value > *place) *place = value; }
DEVICE void lower_to(int* place, int value) { if (value < *place) *place = value; }
#define INFINITE INFINITY
#define NOT_A_NUMBER NAN
#else
#define DEVICE __device__ __forceinline__
#define APART __device__ __noinline__
#define GLOBAL extern "C" __global__ void
#define LANE (int)(threadIdx.x & 31)
#define EACH(i, n) for (int i = LANE; i < (n); i += 32)
#define SYNC __syncwarp()
DEVICE double sum(double x) {
    for (int step = 16; step; step >>= 1) x += __shfl_xor_sync(~0u, x, step);
    return x;
}
DEVICE void raise_to(double* place, double value) {  // an atomic maximum
    unsigned long long* bits = (unsigned long long*)place;
    unsigned long long seen = *bits;
    while (value > __longlong_as_double(seen)) {
        unsigned long long before = atomicCAS(bits, seen, (unsigned long long)__double_as_longlong(value));
        if (before == seen) break;
        seen = before;
    }
}
DEVICE void lower_to(int* place, int value) { atomicMin(place, value); }
#define INFINITE __longlong_as_double(0x7ff0000000000000LL)
#define NOT_A_NUMBER __longlong_as_double(0x7ff8000000000000LL)
#endif

#define NEURONS (STACK * SINGLE)
#define LEAST 4.9406564584124654e-324  // keeps 0 / 0 at 0, and is no more than what underflow is allowed
#define KINK 0
#define CLIP 1
#define TANH 2
#define SIGMOID 3
#define SOFTPLUS 4
#define ELU 5

DEVICE int size_of(int k) { const int sizes[] = SIZES; return sizes[k]; }
DEVICE int bias_at(int k) { int at = 0; for (int j = 0; j < k; j++) at += size_of(j + 1); return at; }
DEVICE int weight_at(int k) { int at = 0; for (int j = 0; j < k; j++) at += size_of(j) * size_of(j + 1); return at; }
DEVICE double clamp(double x, double low, double high) { return fmin(fmax(x, low), high); }

// What all boxes share; all in device memory.
struct Networks {
    const double* weights;     // (networks, WEIGHTS) row by row
    const double* transposed;  // (networks, WEIGHTS) column by column
    const double* biases;      // (networks, SINGLE + OUTPUTS)
    const double* errors;      // (networks, SINGLE) rounding of a bound of a pre-activation
    const double* kinds;       // (SINGLE, 5) activation, two parameters, least and greatest slope
};
struct Questions {
    const int* query;           // (cases,)
    const int* network;         // (queries, STACK)
    const double* lower;        // (cases, INPUTS)
    const double* upper;
    const double* least_width;  // (cases, INPUTS)
    const double* objective;    // (cases, STACK * OUTPUTS)
    const double* offset;       // (cases,)
    const double* error;        // (cases,)
    const double* rows;         // (cases, CONSTRAINTS, STACK * OUTPUTS)
    const double* row_offset;   // (cases, CONSTRAINTS)
    const double* row_error;    // (cases, CONSTRAINTS)
    const double* plan;         // (queries, 5) tolerance, relative, least gap, ceiling, least
};
struct Nodes {
    double* bound;        // (slots,)
    int* of_case;         // (slots,)
    int* axis;            // (slots,)
    double* box;          // (slots, 2, INPUTS)
    double* neurons;      // (slots, 3, NEURONS) low, high, slopes
    double* multipliers;  // (slots, CONSTRAINTS)
};
struct Progress {
    double* best;        // (queries,) when the generation began
    double* better;      // (queries,) so far
    double* closed;      // (queries,) the largest bound of what was closed
    double* witness;     // (queries, INPUTS)
    int* witness_case;   // (queries,) -1: none
    int* winner;         // (queries,) the first item that attains `better`
    double* value;       // (items,) what each item of the generation found, and where
    int* item_case;      // (items,)
    double* item_x;      // (items, INPUTS)
    int* open;           // (items,) whether it stays open
    int* item_slot;      // (items,)
    int* stack;          // (slots,) the open nodes
    int* spare;          // (slots,) the free slots
    int* state;          // open, free, nodes taken in this generation, items of it, boxes so far: their last 24 bits, the rest
};

struct World {
    Networks net;
    Questions ask;
    Nodes nodes;
    Progress at;
};


// Scratch for one box, in shared memory.
struct Room {
    double lower[INPUTS], upper[INPUTS], centre[INPUTS], radius[INPUTS];
    double low[NEURONS], high[NEURONS], start[NEURONS], slopes[NEURONS], best_slopes[NEURONS];
    double lines[8][NEURONS];
    double reach[NEURONS], slope[NEURONS], intercept[NEURONS], best_reach[NEURONS];
    double z[NEURONS], squares[NEURONS], momentum[NEURONS];
    double above[STACK][WIDEST], below[STACK][WIDEST];
    double total[INPUTS], corner[INPUTS], best_total[INPUTS], best_corner[INPUTS];
    double y[STACK * OUTPUTS];
    double multipliers[CONSTRAINTS + 1], best_multipliers[CONSTRAINTS + 1], slack[CONSTRAINTS + 1];
    const double* weights[STACK];
    const double* transposed[STACK];
    const double* biases[STACK];
    const double* errors[STACK];
};

DEVICE double activation(const double* kind, double z) {
    int code = (int)kind[0];
    if (code == KINK) return z > 0 ? kind[2] * z : kind[1] * z;
    if (code == TANH) return tanh(z);
    if (code == CLIP) return clamp(z, kind[1], kind[2]);
    if (code == SIGMOID) return 0.5 + 0.5 * tanh(0.5 * z);
    if (code == SOFTPLUS) return fmax(z, 0.0) + log1p(exp(-fabs(z)));
    return z > 0 ? z : kind[1] * expm1(z);
}

DEVICE double slope_at(const double* kind, double z) {
    int code = (int)kind[0];
    if (code == KINK) return z > 0 ? kind[2] : kind[1];
    if (code == TANH) { double t = tanh(z); return 1 - t * t; }
    if (code == CLIP) return kind[1] < z && z < kind[2] ? 1.0 : 0.0;
    if (code == SIGMOID) { double t = tanh(0.5 * z); return 0.25 * (1 - t * t); }
    if (code == SOFTPLUS) return 0.5 + 0.5 * tanh(0.5 * z);
    return z > 0 ? 1.0 : kind[1] * exp(z);
}

#if SMOOTH
// A point, one of two, where softplus(z) - slope * z or that of an elu may have an extreme.
DEVICE double stationary(const double* kind, double slope, int side) {
    if ((int)kind[0] == SOFTPLUS) { double share = clamp(slope, 0.0, 1.0); return log(share / (1 - share)); }
    if (side == 0) return 0.0;
    return fmin(0.0, log(kind[1] != 0.0 ? slope / kind[1] : slope));
}

// Give both lines of a smooth neuron the wished slope: each touches the curve, or an end of it, at its point.
APART void turn(const double* kind, double low, double high, double wished, Room& room, int n) {
    double (*lines)[NEURONS] = room.lines;
    if (!isfinite(high - low)) {  // fmax and fmin pass over NaN
        for (int row = 0; row < 8; row++) lines[row][n] = NOT_A_NUMBER;
        return;
    }
    int code = (int)kind[0];
    double at_low = activation(kind, low), at_high = activation(kind, high), left, right;
    if (code == TANH) { left = 1 - at_low * at_low; right = 1 - at_high * at_high; }
    else if (code == SIGMOID) { left = at_low * (1 - at_low); right = at_high * (1 - at_high); }
    else { left = slope_at(kind, low); right = slope_at(kind, high); }
    double least = fmin(left, right), most = fmax(left, right);
    if (low <= 0 && high >= 0) {
        if (code == TANH || code == SIGMOID) most = kind[4];
        if (code == ELU) { least = fmin(least, kind[1]); most = fmax(most, kind[1]); }
    }
    double slope = clamp(wished, fmax(least, kind[3]), fmin(most, kind[4]));
    double up = low, down = low, at_up = at_low, at_down = at_low;
    double highest = at_low - slope * low, lowest = highest, value = at_high - slope * high;
    if (value > highest) { up = high; at_up = at_high; highest = value; }
    if (value < lowest) { down = high; at_down = at_high; lowest = value; }
    if (code == TANH || code == SIGMOID) {  // odd about its middle, concave on the right: a tangent above, and one below
        double scale = code == TANH ? 1.0 : 0.5, middle = code == TANH ? 0.0 : 0.5;
        double root = sqrt(fmax(1 - slope / (scale * scale), 0.0));
        double z = 0.5 / scale * log1p(2 * root / (1 - root)), rise = scale * root;
        if (low < z && z < high && middle + rise - slope * z > highest) { up = z; at_up = middle + rise; }
        if (low < -z && -z < high && middle - rise + slope * z < lowest) { down = -z; at_down = middle - rise; }
    } else {
        for (int side = 0; side < 2; side++) {
            double z = stationary(kind, slope, side);
            if (!(low < z && z < high)) continue;
            double at_z = activation(kind, z);
            value = at_z - slope * z;
            if (value > highest) { up = z; at_up = at_z; highest = value; }
            if (value < lowest) { down = z; at_down = at_z; lowest = value; }
        }
    }
    lines[0][n] = lines[1][n] = lines[4][n] = lines[5][n] = slope;
    lines[2][n] = up;
    lines[3][n] = at_up;
    lines[6][n] = down;
    lines[7][n] = at_down;
}

// The slope at z of the concave function closest above a smooth activation, or of the convex one closest below: roughly.
APART double envelope_slope(const double* kind, double low, double high, double z, bool above, double chord) {
    int code = (int)kind[0];
    if (code != TANH && code != SIGMOID) return above ? chord : slope_at(kind, clamp(z, low, high));  // convex
    double scale = code == TANH ? 1.0 : 0.5;
    double left = scale * (above ? low : -high), right = scale * (above ? high : -low);  // below: from the other end
    double at = clamp(scale * (above ? z : -z), left, right);
    if (at < -0.5 * left) {  // left of where a line from the left end touches the curve, or its right end
        double touch = fmin(-0.5 * left, 0.5 * log(2 - 2 * left)), t = tanh(touch), rise = (1 - t * t) * (touch - left);
        touch -= (t - tanh(left) - rise) / (2 * t * rise);
        if (!(touch < right)) return chord;
        at = fmax(at, touch);
    }
    double t = tanh(at);
    return scale * scale * (1 - t * t);
}
#endif

// The eight numbers of a neuron's lines, and the slope to start from.
DEVICE void write_lines(const double* kind, double low, double high, Room& room, int n) {
    double (*lines)[NEURONS] = room.lines;
    if ((int)kind[0] == KINK) {
        double left = kind[1], right = kind[2], below = fmin(low, 0.0), above = fmax(high, 0.0);
        double share = above / (above - below + LEAST), bend = right - left;
        double slope = left != 0.0 || bend != 1.0 ? left + bend * share : share;
        int chord = bend >= 0 ? 0 : 4, turning = 4 - chord;
        lines[chord][n] = lines[chord + 1][n] = slope;
        lines[chord + 2][n] = 0.0;
        lines[chord + 3][n] = -bend * share * below;
        double at_left = low >= 0 ? right : left, at_right = high <= 0 ? left : right;
        lines[turning][n] = fmin(at_left, at_right);
        lines[turning + 1][n] = fmax(at_left, at_right);
        lines[turning + 2][n] = lines[turning + 3][n] = 0.0;
        room.start[n] = above > -below ? right : left;
        return;
    }
    double at_low = activation(kind, low), at_high = activation(kind, high);
    if ((int)kind[0] == CLIP) {
        double a = kind[1], b = kind[2], chord = (at_high - at_low) / (high - low + LEAST);
        lines[0][n] = lines[1][n] = lines[4][n] = lines[5][n] = chord;
        lines[2][n] = lines[6][n] = low;
        lines[3][n] = lines[7][n] = at_low;
        if (high > b) {
            lines[0][n] = 0.0;
            lines[2][n] = lines[3][n] = b;
            lines[1][n] = fmin(1.0, (b - at_low) / (fmax(b - low, 0.0) + LEAST));
        }
        if (low < a) {
            lines[4][n] = 0.0;
            lines[6][n] = lines[7][n] = a;
            lines[5][n] = fmin(1.0, (at_high - a) / (fmax(high - a, 0.0) + LEAST));
        }
        lines[1][n] = fmin(lines[1][n], 1.0);
        lines[5][n] = fmin(lines[5][n], 1.0);
        room.start[n] = chord;
        return;
    }
#if SMOOTH
    double width = high - low;
    turn(kind, low, high, width > 1e-6 ? (at_high - at_low) / width : slope_at(kind, low + width / 2), room, n);
    room.start[n] = lines[0][n];
#endif
}

DEVICE bool settled(const double* kind, double low, double high) {
    if (!isfinite(low) || !isfinite(high) || (int)kind[0] > CLIP) return false;
    if ((int)kind[0] == CLIP) return high <= kind[1] || low >= kind[2] || (low >= kind[1] && high <= kind[2]);
    return high <= 0 || low >= 0 || kind[1] == kind[2];
}

// An upper bound of one pre-activation of layer k (sign 1) or of its negative (-1), by back-substitution: one lane's work.
DEVICE double row_bound(const Room& room, int s, int k, int m, double sign) {
    double row[WIDEST], next[WIDEST];  // next stays in registers: it is indexed by unrolled loops alone
    const double* weights = room.weights[s];
    const double* own = weights + weight_at(k) + m * size_of(k);
    double bound = sign * room.biases[s][bias_at(k) + m], part = 0.0;
    #pragma unroll
    for (int j = k - 1; j >= 0; j--) {
        int first = s * SINGLE + bias_at(j);
        part = 0.0;
        #pragma unroll
        for (int i = 0; i < size_of(j); i++) next[i] = 0.0;
        for (int q = 0; q < size_of(j + 1); q++) {
            double c = j == k - 1 ? sign * own[q] : row[q];
            int n = first + q, side = c >= 0 ? 0 : 4;
            double slope = clamp(room.start[n], room.lines[side][n], room.lines[side + 1][n]);
            double carried = c * slope;
            part += c * (room.lines[side + 3][n] - slope * room.lines[side + 2][n]);
            part += carried * room.biases[s][bias_at(j) + q];
            const double* line = weights + weight_at(j) + q * size_of(j);
            #pragma unroll
            for (int i = 0; i < size_of(j); i++) next[i] += carried * line[i];
        }
        if (j > 0) {
            #pragma unroll
            for (int i = 0; i < size_of(j); i++) row[i] = next[i];
        }
        bound += part;
    }
    part = 0.0;
    #pragma unroll
    for (int i = 0; i < INPUTS; i++) {
        double c = k == 0 ? sign * own[i] : next[i];
        part += c * room.centre[i] + fabs(c) * room.radius[i];
    }
    return bound + part;
}

DEVICE void hidden_bounds(const Networks& net, Room& room) {
    EACH(i, INPUTS) {
        room.centre[i] = (room.upper[i] + room.lower[i]) / 2;
        room.radius[i] = (room.upper[i] - room.lower[i]) / 2;
    }
    SYNC;
    #pragma unroll
    for (int k = 0; k < HIDDEN; k++) {
        int width = size_of(k + 1);
        EACH(task, 2 * STACK * width) {  // every neuron's upper and lower bound
            int s = task / (2 * width), m = task % (2 * width) / 2, n = s * SINGLE + bias_at(k) + m;
            if (settled(net.kinds + 5 * (bias_at(k) + m), room.low[n], room.high[n])) {
                room.z[n] = room.momentum[n] = INFINITE;
                continue;
            }
            double bound = row_bound(room, s, k, m, task % 2 ? -1.0 : 1.0) + room.errors[s][bias_at(k) + m];
            if (task % 2) room.momentum[n] = bound;
            else room.z[n] = bound;
        }
        SYNC;
        EACH(task, STACK * width) {
            int s = task / width, m = task % width, n = s * SINGLE + bias_at(k) + m;
            room.high[n] = fmin(room.high[n], room.z[n]);
            room.low[n] = fmax(room.low[n], -room.momentum[n]);
            write_lines(net.kinds + 5 * (bias_at(k) + m), room.low[n], room.high[n], room, n);
        }
        SYNC;
    }
}

// room.below = room.above @ layer k's weights; what the biases add, by lanes.
DEVICE double down(Room& room, int k) {
    double part = 0.0;
    int width = size_of(k + 1), below = size_of(k);
    #pragma unroll
    for (int s = 0; s < STACK; s++) {
        EACH(m, width) part += room.above[s][m] * room.biases[s][bias_at(k) + m];
        EACH(i, below) {
            double total = 0.0;
            for (int m = 0; m < width; m++) total += room.above[s][m] * room.weights[s][weight_at(k) + m * below + i];
            room.below[s][i] = total;
        }
    }
    SYNC;
    return part;
}

// An upper bound of room.above @ outputs on the box, without rounding.
DEVICE double descend(Room& room) {
    double bound = 0.0;
    #pragma unroll
    for (int k = HIDDEN; k >= 0; k--) {
        double part = down(room, k);
        if (k > 0) {
            EACH(task, STACK * size_of(k)) {
                int s = task / size_of(k), i = task % size_of(k), n = s * SINGLE + bias_at(k - 1) + i;
                double c = room.below[s][i];
                int side = c >= 0 ? 0 : 4;
                double slope = clamp(room.slopes[n], room.lines[side][n], room.lines[side + 1][n]);
                double intercept = room.lines[side + 3][n] - slope * room.lines[side + 2][n];
                room.reach[n] = c;
                room.slope[n] = slope;
                room.intercept[n] = intercept;
                room.above[s][i] = c * slope;
                part += c * intercept;
            }
            SYNC;
        }
        bound += part;
    }
    double part = 0.0;
    EACH(i, INPUTS) {
        double total = 0.0;
        for (int s = 0; s < STACK; s++) total += room.below[s][i];
        room.total[i] = total;
        room.corner[i] = total >= 0 ? room.upper[i] : room.lower[i];
        part += total * room.corner[i];
    }
    SYNC;
    return sum(bound + part);
}

DEVICE double evaluate(const Networks& net, const Questions& ask, int of_case, Room& room) {
#if SMOOTH
    EACH(n, NEURONS) {
        const double* kind = net.kinds + 5 * (n % SINGLE);
        if ((int)kind[0] > CLIP) turn(kind, room.low[n], room.high[n], room.slopes[n], room, n);
    }
#endif
    const double* rows = ask.rows + (long)of_case * CONSTRAINTS * STACK * OUTPUTS;
    double constant = ask.offset[of_case] + ask.error[of_case], part = 0.0;
    EACH(m, STACK * OUTPUTS) {
        double c = ask.objective[(long)of_case * STACK * OUTPUTS + m];
        for (int r = 0; r < CONSTRAINTS; r++) c += room.multipliers[r] * rows[r * STACK * OUTPUTS + m];
        room.above[m / OUTPUTS][m % OUTPUTS] = c;
    }
    for (int r = 0; r < CONSTRAINTS; r++) {
        long at = (long)of_case * CONSTRAINTS + r;
        part += room.multipliers[r] * (ask.row_offset[at] + 2 * ask.row_error[at]);
    }
    SYNC;
    double bound = descend(room) + (constant + part);
    return isfinite(bound) ? bound : INFINITE;
}

// Outputs at x, of the networks themselves or through the lines in use; the pre-activations stay in room.z.
DEVICE void forward(const Networks& net, Room& room, const double* x, bool lines) {
    #pragma unroll
    for (int k = 0; k <= HIDDEN; k++) {
        int width = size_of(k + 1), below = size_of(k);
        EACH(task, STACK * width) {
            int s = task / width, m = task % width;
            double z = 0.0;
            for (int i = 0; i < below; i++)
                z += room.transposed[s][weight_at(k) + i * width + m] * (k ? room.below[s][i] : x[i]);
            z += room.biases[s][bias_at(k) + m];
            if (k == HIDDEN) room.y[s * OUTPUTS + m] = z;
            else room.z[s * SINGLE + bias_at(k) + m] = z;
        }
        SYNC;
        if (k < HIDDEN) {
            EACH(task, STACK * width) {
                int s = task / width, m = task % width, n = s * SINGLE + bias_at(k) + m;
                double z = room.z[n];
                room.below[s][m] = lines ? room.slope[n] * z + room.intercept[n]
                                         : activation(net.kinds + 5 * (bias_at(k) + m), z);
            }
            SYNC;
        }
    }
}

DEVICE void keep(Room& room) {
    EACH(n, NEURONS) { room.best_slopes[n] = room.slopes[n]; room.best_reach[n] = room.reach[n]; }
    EACH(r, CONSTRAINTS) room.best_multipliers[r] = room.multipliers[r];
    EACH(i, INPUTS) { room.best_total[i] = room.total[i]; room.best_corner[i] = room.corner[i]; }
    SYNC;
}

DEVICE void move_slopes(Room& room, double excess) {
    double length = 0.0;
    EACH(n, NEURONS) {
        int side = room.reach[n] >= 0 ? 0 : 4;
        bool free = room.lines[side + 1][n] > room.lines[side][n];
        double g = free ? room.reach[n] * (room.z[n] - room.lines[side + 2][n]) : 0.0;
        room.z[n] = g;
        if (g != 0.0) {
            room.squares[n] += g * g;
            length += g * g / (sqrt(room.squares[n]) + 1e-290);
        }
    }
    length = excess / fmax(sum(length), 1e-290);
    if (!isfinite(length)) length = 0.0;
    EACH(n, NEURONS) {
        double g = room.z[n];
        room.momentum[n] *= 0.5;
        if (g != 0.0) {
            room.momentum[n] += g / (sqrt(room.squares[n]) + 1e-290);
            int side = room.reach[n] >= 0 ? 0 : 4;
            double least = room.lines[side][n], most = room.lines[side + 1][n];
            room.slopes[n] = clamp(clamp(room.slopes[n], least, most) - length * room.momentum[n], least, most);
        }
    }
    SYNC;
}

#if SMOOTH
// Part of the way to the slopes that are best at the corner: those of the curves' envelopes there.
DEVICE void bend_slopes(const Networks& net, Room& room, double share) {
    EACH(n, NEURONS) {
        const double* kind = net.kinds + 5 * (n % SINGLE);
        if ((int)kind[0] <= CLIP) continue;
        bool above = room.reach[n] >= 0;
        double best = envelope_slope(kind, room.low[n], room.high[n], room.z[n], above, room.start[n]);
        room.slopes[n] += share * (best - room.slopes[n]);
    }
    SYNC;
}
#endif

DEVICE void move_multipliers(const Questions& ask, int of_case, Room& room, double excess) {
    double length = 0.0;
    for (int r = 0; r < CONSTRAINTS; r++) {
        long at = (long)of_case * CONSTRAINTS + r;
        double g = ask.row_offset[at] + 2 * ask.row_error[at];
        for (int m = 0; m < STACK * OUTPUTS; m++) g += ask.rows[at * STACK * OUTPUTS + m] * room.y[m];
        if (room.multipliers[r] <= 0 && g > 0) g = 0.0;
        if (LANE == 0) room.slack[r] = g;
        length += g * g;
    }
    SYNC;
    length = excess / fmax(length, 1e-290);
    if (!isfinite(length)) length = 0.0;
    EACH(r, CONSTRAINTS) room.multipliers[r] = fmax(0.0, room.multipliers[r] - length * room.slack[r]);
    SYNC;
}

DEVICE double tighten(
    const Networks& net, const Questions& ask, int of_case, Room& room, double bound, double aim, double enough
) {
    double best = bound, reach = 1.0;
    int blocks = CONSTRAINTS ? 2 : 1;
    keep(room);
    EACH(n, NEURONS) room.squares[n] = room.momentum[n] = 0.0;
    SYNC;
    for (int step = 0; step < STEPS * blocks && best > enough; step++) {
        forward(net, room, room.corner, true);
        if (blocks == 2 && step % 2 == 0) move_multipliers(ask, of_case, room, reach * (bound - aim));
        else {
#if SMOOTH
            bend_slopes(net, room, 1.0 / (2 + step / blocks));
#endif
            move_slopes(room, reach * (bound - aim));
        }
        bound = evaluate(net, ask, of_case, room);
        if (bound < best) { best = bound; keep(room); }
        else reach *= 0.9;
    }
    return best;
}

// Note what x surely attains, if it surely satisfies the constraints.
DEVICE void offer(const Networks& net, const Questions& ask, Progress& at, Room& room, const double* x, int of_case, int item) {
    forward(net, room, x, false);
    double value = 0.0;
    bool inside = true;
    for (int m = 0; m < STACK * OUTPUTS; m++) value += ask.objective[(long)of_case * STACK * OUTPUTS + m] * room.y[m];
    value = value + ask.offset[of_case] - ask.error[of_case];
    for (int r = 0; r < CONSTRAINTS; r++) {
        long place = (long)of_case * CONSTRAINTS + r;
        double slack = 0.0;
        for (int m = 0; m < STACK * OUTPUTS; m++) slack += ask.rows[place * STACK * OUTPUTS + m] * room.y[m];
        inside = inside && slack + ask.row_offset[place] >= ask.row_error[place];
    }
    if (inside && isfinite(value) && value > at.value[item]) {
        SYNC;
        if (LANE == 0) {
            at.value[item] = value;
            at.item_case[item] = of_case;
            raise_to(at.better + ask.query[of_case], value);
        }
        EACH(i, INPUTS) at.item_x[(long)item * INPUTS + i] = x[i];
    }
    SYNC;
}

DEVICE double target_of(const double* plan, double value) {
    if (value == -INFINITE) return plan[4];
    return value + fmax(0.99 * fmax(plan[0], plan[1] * fabs(value)), plan[2]);
}

DEVICE int choose_axis(const Networks& net, const Questions& ask, int of_case, Room& room) {
    // Coefficients without their signs, carried down through what is loose.
    EACH(task, STACK * WIDEST) room.above[task / WIDEST][task % WIDEST] = 0.0;
    SYNC;
    #pragma unroll
    for (int k = HIDDEN - 1; k >= 0; k--) {
        int width = size_of(k + 1), below = size_of(k);
        EACH(task, STACK * width) {
            int s = task / width, m = task % width, n = s * SINGLE + bias_at(k) + m;
            bool loose = room.lines[1][n] > room.lines[0][n] || room.lines[5][n] > room.lines[4][n];
            double carried = room.above[s][m] * fmax(fabs(room.lines[0][n]), fabs(room.lines[5][n]));
            loose = loose || (int)net.kinds[5 * (bias_at(k) + m)] > CLIP;
            room.above[s][m] = carried + (loose ? fabs(room.best_reach[n]) : 0.0);
        }
        SYNC;
        EACH(task, STACK * below) {
            int s = task / below, i = task % below;
            double total = 0.0;
            for (int m = 0; m < width; m++)
                total += room.above[s][m] * fabs(room.weights[s][weight_at(k) + m * below + i]);
            room.below[s][i] = total;
        }
        SYNC;
        EACH(task, STACK * below) room.above[task / below][task % below] = room.below[task / below][task % below];
        SYNC;
    }
    int axis = -1, widest = -1;
    double most = 0.0, longest = 0.0;
    for (int i = 0; i < INPUTS; i++) {
        double width = room.upper[i] - room.lower[i], score = fabs(room.best_total[i]);
        if (width <= ask.least_width[(long)of_case * INPUTS + i]) continue;
        for (int s = 0; s < STACK; s++) score += room.above[s][i];
        if (score * width > most) { most = score * width; axis = i; }
        if (width > longest) { longest = width; widest = i; }
    }
    return axis >= 0 ? axis : widest;
}

DEVICE void clip(Room& room, double bound, double target) {
    double scale = 0.0;
    for (int i = 0; i < INPUTS; i++)
        scale += fabs(room.best_total[i]) * fmax(fabs(room.lower[i]), fabs(room.upper[i]));
    double space = fmax(bound - target, 0.0) * (1 + 1e-12) + 1e-13 * (scale + fabs(bound) + fabs(target));
    SYNC;
    EACH(i, INPUTS) {
        double slope = room.best_total[i], move = slope != 0.0 ? space / fabs(slope) : INFINITE;
        if (isnan(move)) continue;
        if (slope > 0) room.lower[i] = fmax(room.lower[i], room.upper[i] - move);
        else if (slope < 0) room.upper[i] = fmin(room.upper[i], room.lower[i] + move);
    }
    SYNC;
}

DEVICE void enter(const Networks& net, const Questions& ask, Room& room, int query) {
    if (LANE == 0)
        for (int s = 0; s < STACK; s++) {
            long which = ask.network[query * STACK + s];
            room.weights[s] = net.weights + which * WEIGHTS;
            room.transposed[s] = net.transposed + which * WEIGHTS;
            room.biases[s] = net.biases + which * (SINGLE + OUTPUTS);
            room.errors[s] = net.errors + which * SINGLE;
        }
    SYNC;
}

// Bound the box in the room; if it stays open, it goes to the slot.
DEVICE void bound_box(
    const Networks& net, const Questions& ask, Nodes& nodes, Progress& at, Room& room, int of_case, double before, int slot,
    int item
) {
    int query = ask.query[of_case];
    const double* plan = ask.plan + 5 * query;
    double value = at.best[query], target = target_of(plan, value);
    hidden_bounds(net, room);
    EACH(n, NEURONS) {
        bool smooth = SMOOTH && (int)net.kinds[5 * (n % SINGLE)] > CLIP;
        if (isnan(room.slopes[n]) || smooth) room.slopes[n] = room.start[n];
    }
    SYNC;
    double bound = evaluate(net, ask, of_case, room), tight = bound;
    if (LANE == 0) at.value[item] = -INFINITE;
    SYNC;
    if (fmin(bound, before) > target) {
        double below = fmax(1e-6 * fabs(target), plan[2]);
        double aim = value == -INFINITE ? target - below : (target + value) / 2;
        tight = tighten(net, ask, of_case, room, bound, aim, target);
        offer(net, ask, at, room, room.best_corner, of_case, item);
    }
    double found = fmin(tight, before);
    bool open = found > target && value < plan[3];
    int axis = -1;
    if (open) {
        axis = choose_axis(net, ask, of_case, room);
        clip(room, tight, target);
        if (LANE == 0) raise_to(at.closed + query, target);
    }
    if (!open || axis < 0) {
        if (LANE == 0) { at.open[item] = 0; at.item_slot[item] = slot; raise_to(at.closed + query, found); }
        SYNC;
        return;
    }
    if (LANE == 0) {
        at.open[item] = 1;
        at.item_slot[item] = slot;
        nodes.bound[slot] = found;
        nodes.of_case[slot] = of_case;
        nodes.axis[slot] = axis;
    }
    double* box = nodes.box + (long)slot * 2 * INPUTS;
    double* neurons = nodes.neurons + (long)slot * 3 * NEURONS;
    EACH(i, INPUTS) { box[i] = room.lower[i]; box[INPUTS + i] = room.upper[i]; }
    EACH(n, NEURONS) {
        neurons[n] = room.low[n];
        neurons[NEURONS + n] = room.high[n];
        neurons[2 * NEURONS + n] = room.best_slopes[n];
    }
    EACH(r, CONSTRAINTS) nodes.multipliers[(long)slot * CONSTRAINTS + r] = room.best_multipliers[r];
    SYNC;
}

#ifdef HOST
#define ROOM Room space; Room& room = space
#define WORKER 0
#define WORKERS 1
#else
#define ROOM extern __shared__ double space[]; Room& room = ((Room*)space)[threadIdx.x / 32]
#define WORKER (int)((blockIdx.x * blockDim.x + threadIdx.x) / 32)
#define WORKERS (int)(gridDim.x * blockDim.x / 32)
#endif

#if defined(HOST) || defined(ONLY_plant)
// The first boxes, one a case: item c is case c, in slot c.
GLOBAL plant(const World* world, int cases) {
    Networks net = world->net;
    Questions ask = world->ask;
    Nodes nodes = world->nodes;
    Progress at = world->at;
    ROOM;
    for (int c = WORKER; c < cases; c += WORKERS) {
        enter(net, ask, room, ask.query[c]);
        EACH(i, INPUTS) {
            room.lower[i] = ask.lower[(long)c * INPUTS + i];
            room.upper[i] = ask.upper[(long)c * INPUTS + i];
        }
        EACH(n, NEURONS) { room.low[n] = -INFINITE; room.high[n] = INFINITE; room.slopes[n] = NOT_A_NUMBER; }
        EACH(r, CONSTRAINTS) room.multipliers[r] = 0.0;
        SYNC;
        bound_box(net, ask, nodes, at, room, c, INFINITE, c, c);
    }
}
#endif

#if defined(HOST) || defined(ONLY_halve)
// Halve the nodes on top of the stack: items 2 p and 2 p + 1 are the halves of the p-th of them.
GLOBAL halve(const World* world) {
    Networks net = world->net;
    Questions ask = world->ask;
    Nodes nodes = world->nodes;
    Progress at = world->at;
    ROOM;
    int taken = at.state[2];
    for (int p = WORKER; p < taken; p += WORKERS) {
        int parent = at.stack[at.state[0] - taken + p], spare = at.spare[at.state[1] - 1 - p];
        int of_case = nodes.of_case[parent], axis = nodes.axis[parent];
        double before = nodes.bound[parent];
        const double* box = nodes.box + (long)parent * 2 * INPUTS;
        const double* neurons = nodes.neurons + (long)parent * 3 * NEURONS;
        enter(net, ask, room, ask.query[of_case]);
        for (int half = 0; half < 2; half++) {  // the parent's slot is overwritten last
            double middle = (box[axis] + box[INPUTS + axis]) / 2;
            SYNC;
            EACH(i, INPUTS) {
                room.lower[i] = half && i == axis ? middle : box[i];
                room.upper[i] = !half && i == axis ? middle : box[INPUTS + i];
            }
            EACH(n, NEURONS) {
                room.low[n] = neurons[n];
                room.high[n] = neurons[NEURONS + n];
                room.slopes[n] = neurons[2 * NEURONS + n];
            }
            EACH(r, CONSTRAINTS) room.multipliers[r] = nodes.multipliers[(long)parent * CONSTRAINTS + r];
            SYNC;
            bound_box(net, ask, nodes, at, room, of_case, before, half ? parent : spare, 2 * p + half);
        }
    }
}
#endif

#if defined(HOST) || defined(ONLY_climb)
// Gradient ascent: item c * STARTS + t climbs from start t in case c.
GLOBAL climb(const World* world, const double* starts, int cases) {
    Networks net = world->net;
    Questions ask = world->ask;
    Progress at = world->at;
    ROOM;
    for (int item = WORKER; item < cases * STARTS; item += WORKERS) {
        int c = item / STARTS;
        const double* start = starts + (long)(item % STARTS) * INPUTS;
        const double *lower = ask.lower + (long)c * INPUTS, *upper = ask.upper + (long)c * INPUTS;
        enter(net, ask, room, ask.query[c]);
        if (LANE == 0) { at.value[item] = -INFINITE; at.open[item] = 0; }
        EACH(i, INPUTS) room.corner[i] = lower[i] + start[i] * (upper[i] - lower[i]);
        SYNC;
        double length = 0.5;
        for (int step = 0; step <= ASCENT; step++) {
            if (CONSTRAINTS || step == ASCENT) offer(net, ask, at, room, room.corner, c, item);
            else forward(net, room, room.corner, false);
            if (step == ASCENT) break;
            bool outside = false;
            for (int r = 0; r < CONSTRAINTS; r++) {
                long place = (long)c * CONSTRAINTS + r;
                double slack = ask.row_offset[place] - 2 * ask.row_error[place];
                for (int m = 0; m < STACK * OUTPUTS; m++) slack += ask.rows[place * STACK * OUTPUTS + m] * room.y[m];
                if (LANE == 0) room.slack[r] = slack;
                outside = outside || slack < 0;
            }
            SYNC;
            EACH(m, STACK * OUTPUTS) {
                double row = outside ? 0.0 : ask.objective[(long)c * STACK * OUTPUTS + m];
                for (int r = 0; outside && r < CONSTRAINTS; r++)
                    if (room.slack[r] < 0) row += ask.rows[((long)c * CONSTRAINTS + r) * STACK * OUTPUTS + m];
                room.above[m / OUTPUTS][m % OUTPUTS] = row;
            }
            SYNC;
            #pragma unroll
            for (int k = HIDDEN; k >= 0; k--) {
                down(room, k);
                if (k > 0) {
                    EACH(task, STACK * size_of(k)) {
                        int s = task / size_of(k), i = task % size_of(k), place = bias_at(k - 1) + i;
                        double slope = slope_at(net.kinds + 5 * place, room.z[s * SINGLE + place]);
                        room.above[s][i] = room.below[s][i] * slope;
                    }
                    SYNC;
                }
            }
            EACH(i, INPUTS) {
                double g = 0.0;
                for (int s = 0; s < STACK; s++) g += room.below[s][i];
                double move = length * (upper[i] - lower[i]) * (g > 0 ? 1.0 : g < 0 ? -1.0 : 0.0);
                room.corner[i] = clamp(room.corner[i] + move, lower[i], upper[i]);
            }
            SYNC;
            length *= 0.8;
        }
    }
}
#endif

#ifdef HOST
#define THREAD 0
#define THREADS 1
#else
#define THREAD (int)(blockIdx.x * blockDim.x + threadIdx.x)
#define THREADS (int)(gridDim.x * blockDim.x)
#endif

// The first item that attains its query's better value.
GLOBAL find_winners(const World* world) {
    Questions ask = world->ask;
    Progress at = world->at;
    for (int item = THREAD; item < at.state[3]; item += THREADS) {
        if (at.value[item] == -INFINITE) continue;
        int query = ask.query[at.item_case[item]];
        if (at.value[item] == at.better[query] && at.better[query] > at.best[query]) lower_to(at.winner + query, item);
    }
}

// Take the winners' points as witnesses.
GLOBAL crown_winners(const World* world, int queries) {
    Progress at = world->at;
    for (int query = THREAD; query < queries; query += THREADS) {
        int item = at.winner[query];
        if (item == 0x7fffffff) continue;
        for (int i = 0; i < INPUTS; i++) at.witness[(long)query * INPUTS + i] = at.item_x[(long)item * INPUTS + i];
        at.witness_case[query] = at.item_case[item];
        at.best[query] = at.better[query];
        at.winner[query] = 0x7fffffff;
    }
}

// Put the open items on the stack in their order, give the slots of the others back, and say what comes next. One block.
GLOBAL sort_out(const World* world, int most) {
    Progress at = world->at;
#ifdef HOST
    const int thread = 0, threads = 1;
    int counts[1];
#else
    const int thread = threadIdx.x, threads = blockDim.x;
    __shared__ int counts[1024];
#endif
    int items = at.state[3], taken = at.state[2], chunk = (items + threads - 1) / threads;
    int first = thread * chunk < items ? thread * chunk : items, last = first + chunk < items ? first + chunk : items;
    int open_now = at.state[0] - taken, spare_now = at.state[1] - (items - taken), count = 0;
    for (int item = first; item < last; item++) count += at.open[item];
    counts[thread] = count;
#ifndef HOST
    __syncthreads();
    for (int step = 1; step < threads; step *= 2) {
        int add = thread >= step ? counts[thread - step] : 0;
        __syncthreads();
        counts[thread] += add;
        __syncthreads();
    }
#endif
    int survivors = counts[threads - 1], before = counts[thread] - count;
    for (int item = first, kept = before, dropped = first - before; item < last; item++) {
        if (at.open[item]) at.stack[open_now + kept++] = at.item_slot[item];
        else at.spare[spare_now + dropped++] = at.item_slot[item];
    }
#ifndef HOST
    __syncthreads();
#endif
    if (thread == 0) {
        int open = open_now + survivors, spare = spare_now + items - survivors;
        int next = open < most ? open : most;
        next = next < spare ? next : spare;
        at.state[0] = open;
        at.state[1] = spare;
        at.state[2] = next;
        at.state[3] = 2 * next;
        int boxes = at.state[4] + items;
        at.state[4] = boxes & 0xffffff;
        at.state[5] += boxes >> 24;
    }
}

// The highest bound of what is still open, query by query.
GLOBAL find_highest(const World* world, double* highest) {
    Questions ask = world->ask;
    Nodes nodes = world->nodes;
    Progress at = world->at;
    for (int p = THREAD; p < at.state[0]; p += THREADS) {
        int slot = at.stack[p];
        raise_to(highest + ask.query[nodes.of_case[slot]], nodes.bound[slot]);
    }
}
