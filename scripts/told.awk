# What a run of cargo's tests told, short: each program with its result, what failed and all that it said, what was
# skipped and why. The end names what failed once more.
/^ *(Running|Doc-tests) / { is_built = 1; print; fflush(); next }
!is_built { if ($1 !~ /^(Compiling|Downloading|Downloaded|Updating|Locking|Adding)$/) print; next }
/^test .* \.\.\. FAILED$/ { failed[++count] = $2 }
/^test .* \.\.\. FAILED$/ || /^test .* has been running for over/ || /^error: / { print; fflush(); next }
/^test result: / { is_failure = 0; print; fflush(); next }
/^failures:$/ { is_failure = 1 }
is_failure || /^skipped: / { print }
END { for (i = 1; i <= count; i++) print (i == 1 ? "\nfailed:\n" : "") "    " failed[i] }
