// The entry loads nothing itself: what is shared has to be registered before a module asks for it.

void import("./host");

export {};
