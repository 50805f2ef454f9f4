// Where ODH Dashboard shows the pages.

export const place = "/develop-train/training";
