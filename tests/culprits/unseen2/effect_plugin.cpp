// The effects of effect_rack: a cheap limiter and a reverb that adds up all of its echoes for each sample.
struct Effect {
    virtual ~Effect() = default;
    virtual void process(float *samples, int count) = 0;
};

class Limiter : public Effect {
    void process(float *samples, int count) override {
        for (int i = 0; i < count; i++)
            samples[i] = samples[i] > 1 ? 1 : samples[i] < -1 ? -1 : samples[i];
    }
};

class Reverb : public Effect {
    float past[4096] = {};
    unsigned now = 0;

    void process(float *samples, int count) override {
        for (int i = 0; i < count; i++) {
            float sum = samples[i];
            for (unsigned echo = 1; echo < 800; echo++)
                sum += past[(now - echo * 5) & 4095] * 0.001f; // culprit
            past[now++ & 4095] = sum;
            samples[i] = sum;
        }
    }
};

extern "C" Effect *make_limiter() { return new Limiter; }
extern "C" Effect *make_reverb() { return new Reverb; }
